<?php
// Installs WordPress 6.1 of Debian's package into an empty database and makes its users with its
// own functions, as its forms do: php wordpress.php SOCKET DATABASE PASSWORDS, which is a JSON list with one for each user.
[, $socket, $database, $json] = $argv;
$passwords = json_decode($json);
define('ABSPATH', '/usr/share/wordpress/');
define('DB_NAME', $database);
define('DB_USER', 'root');
define('DB_PASSWORD', '');
define('DB_HOST', 'localhost:' . $socket);
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
define('WP_INSTALLING', true);
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('DISABLE_WP_CRON', true);
define('WP_CONTENT_DIR', '/usr/share/wordpress/wp-content');
$table_prefix = 'blog_';
$_SERVER += ['HTTP_HOST' => 'localhost', 'REQUEST_URI' => '/', 'SERVER_PROTOCOL' => 'HTTP/1.1', 'REMOTE_ADDR' => '127.0.0.1'];
require ABSPATH . 'wp-settings.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
add_filter('pre_wp_mail', '__return_true'); // sends nothing
add_filter('send_auth_cookies', '__return_false');
wp_install('Blog', 'admin', 'admin@example.com', true, '', wp_slash($passwords[0])); // as install.php

function check($result) {
	if (is_wp_error($result)) {
		fwrite(STDERR, $result->get_error_message() . "\n");
		exit(1);
	}
	return $result;
}

// As user-new.php and profile.php make a user of a form, whose backslashes in passwords they refuse: then as wp-login.php
// sets a new password.
function user(string $password, array $fields, array $more = []): int {
	$other = strpos($password, '\\') === false ? $password : 'another';
	$_POST = wp_slash($fields + ['pass1' => $other, 'pass2' => $other, 'nickname' => $fields['user_login'], 'display_name' => $fields['user_login']]);
	$id = check(edit_user());
	if ($other !== $password) {
		$_POST = wp_slash(['pass1' => $password]);
		reset_password(get_userdata($id), trim($_POST['pass1']));
	}
	if ($more) {
		check(wp_update_user(['ID' => $id] + $more));
	}
	return $id;
}

user($passwords[1], ['user_login' => 'ada', 'email' => 'ada@example.com', 'display_name' => "Ada O'Lovelace \\ \"Countess\" & <3;", 'first_name' => 'Ada',
	'url' => 'https://example.com/ada'], ['locale' => 'de_DE_formal', 'user_registered' => '2015-03-04 05:06:07']);
$id = user($passwords[2], ['user_login' => 'zoe', 'email' => 'zoe@example.com', 'display_name' => 'Zoë 🦊', 'description' => "Line one\nline two;\n-- it's 'quoted'"]);
add_user_meta($id, 'city', 'kazan');
user($passwords[3], ['user_login' => 'Grace Hopper', 'email' => 'grace@example.com']);
user($passwords[4], ['user_login' => 'jo', 'email' => 'jo@example.com']);
// As WordPress before 2.5.
$id = user($passwords[5], ['user_login' => 'old-md5', 'email' => 'old@example.com']);
$wpdb->update($wpdb->users, ['user_pass' => md5(trim(wp_slash($passwords[5])))], ['ID' => $id]);
wp_cache_flush();
foreach (get_users(['orderby' => 'ID']) as $i => $u) {
	$_POST = wp_slash(['log' => $u->user_login, 'pwd' => $passwords[$i]]);
	if (strlen($u->user_pass) == 32) { // which wp_signon would replace
		$ok = wp_check_password(trim($_POST['pwd']), $u->user_pass);
	} else {
		$ok = !is_wp_error(wp_signon());
	}
	if (!$ok) {
		fwrite(STDERR, "WordPress refuses the password of $u->user_login\n");
		exit(1);
	}
}
