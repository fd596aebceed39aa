<?php
// Installs WordPress 6.1 of Debian's package into an empty database and makes its users with its
// own functions: php wordpress.php SOCKET DATABASE PASSWORD
[, $socket, $database, $password] = $argv;
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
wp_install('Blog', 'admin', 'admin@example.com', true, '', $password);

function user(array $data): int {
	global $password;
	$id = wp_insert_user($data + ['user_pass' => $password]);
	if (is_wp_error($id)) {
		fwrite(STDERR, $id->get_error_message() . "\n");
		exit(1);
	}
	return $id;
}

user(['user_login' => 'ada', 'user_email' => 'ada@example.com', 'display_name' => "Ada O'Lovelace \\ \"Countess\"", 'first_name' => 'Ada',
	'locale' => 'de_DE_formal', 'user_registered' => '2015-03-04 05:06:07', 'user_url' => 'https://example.com/ada']);
$id = user(['user_login' => 'zoë', 'user_email' => 'zoe@example.com', 'display_name' => 'Zoë 🦊', 'description' => "Line one\nline two;\n-- it's 'quoted'"]);
add_user_meta($id, 'city', 'kazan');
user(['user_login' => 'Grace Hopper', 'user_email' => 'grace@example.com']);
user(['user_login' => 'jo', 'user_email' => 'jo@example.com']);
// As WordPress's documentation resets a password in the database: an MD5.
$id = user(['user_login' => 'old-md5', 'user_email' => 'old@example.com']);
$wpdb->query($wpdb->prepare("UPDATE $wpdb->users SET user_pass = MD5(%s) WHERE ID = %d", $password, $id));
wp_cache_flush();
foreach (get_users() as $u) {
	if (!wp_check_password($password, $u->user_pass)) { // which would replace an MD5 if it had the id
		fwrite(STDERR, "WordPress refuses the password of $u->user_login\n");
		exit(1);
	}
}
