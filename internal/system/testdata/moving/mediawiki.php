<?php
// Makes users of an installed MediaWiki 1.39, one with each type of hash that it writes, with passwords as it reads
// them from a form: MW_CONFIG_FILE=… php mediawiki.php PASSWORDS, which is a JSON list of that of the administrator, and one for each user.
require '/usr/share/mediawiki/maintenance/Maintenance.php';

class MakeUsers extends Maintenance {
	public function __construct() {
		parent::__construct();
		$this->addArg('passwords', 'of the users');
	}

	public function execute() {
		$given = json_decode($this->getArg(0));
		$services = MediaWiki\MediaWikiServices::getInstance();
		$passwords = $services->getPasswordFactory();
		$db = $services->getDBLoadBalancer()->getConnection(DB_PRIMARY);
		foreach (['A', 'B', 'pbkdf2', 'bcrypt', 'argon2'] as $i => $type) {
			$password = (new FauxRequest(['wpPassword' => $given[$i + 1]], true))->getText('wpPassword');
			$name = 'User ' . $type;
			$user = User::createNew($name, ['email' => strtolower(str_replace(' ', '.', $name)) . '@example.com', 'real_name' => "Real O'$type & \"<b>\"; \\"]);
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
