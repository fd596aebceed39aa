<?php
// Makes users of an installed MediaWiki 1.39, one with each type of hash that it writes:
// MW_CONFIG_FILE=… php mediawiki.php PASSWORD
require '/usr/share/mediawiki/maintenance/Maintenance.php';

class MakeUsers extends Maintenance {
	public function __construct() {
		parent::__construct();
		$this->addArg('password', 'of all users');
	}

	public function execute() {
		$password = $this->getArg(0);
		$services = MediaWiki\MediaWikiServices::getInstance();
		$passwords = $services->getPasswordFactory();
		$db = $services->getDBLoadBalancer()->getConnection(DB_PRIMARY);
		foreach (['A', 'B', 'pbkdf2', 'bcrypt', 'argon2'] as $type) {
			$name = 'User ' . $type;
			$user = User::createNew($name, ['email' => strtolower(str_replace(' ', '.', $name)) . '@example.com', 'real_name' => "Real $type"]);
			if (!$user) {
				$this->fatalError("no user $name");
			}
			$passwords->setDefaultType($type);
			$hash = $passwords->newFromPlaintext($password);
			$db->update('user', ['user_password' => $hash->toString()], ['user_id' => $user->getId()], __METHOD__);
			if (!$passwords->newFromCiphertext($hash->toString())->verify($password)) {
				$this->fatalError("MediaWiki refuses the password of $name");
			}
			if ($type == 'pbkdf2') {
				$user->confirmEmail();
				$services->getUserOptionsManager()->setOption($user, 'language', 'pt-br');
			}
			$user->saveSettings();
		}
		User::newSystemUser('Robot', ['steal' => true]);
	}
}

$maintClass = MakeUsers::class;
require RUN_MAINTENANCE_IF_MAIN;
