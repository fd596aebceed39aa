-- Made on Debian 12 with Adminer 4.8.1 and MariaDB 10.11: the page Export, DROP+CREATE and INSERT
-- Adminer 4.8.1 MySQL 10.11.19-MariaDB-0+deb12u1 dump

SET NAMES utf8;
SET time_zone = '+00:00';
SET foreign_key_checks = 0;
SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO';

SET NAMES utf8mb4;

DROP TABLE IF EXISTS `users`;
CREATE TABLE `users` (
  `id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `name` varchar(250) NOT NULL DEFAULT '',
  `photo` blob DEFAULT NULL,
  `flag` bit(1) DEFAULT b'1',
  PRIMARY KEY (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

INSERT INTO `users` (`id`, `name`, `photo`, `flag`) VALUES
(1,	'Ada O\'Lo\\\"ve\nlace; --',	'\0�',	CONV('1', 2, 10) + 0),
(2,	'Боб # /* x',	NULL,	CONV('0', 2, 10) + 0);

DELIMITER ;;

CREATE TRIGGER `t` BEFORE INSERT ON `users` FOR EACH ROW
SET NEW.name = concat('x;', NEW.name);;

DELIMITER ;

DROP VIEW IF EXISTS `v`;
CREATE TABLE `v` (`id` bigint(20) unsigned);


DROP TABLE IF EXISTS `v`;
CREATE ALGORITHM=UNDEFINED DEFINER=`root`@`localhost` SQL SECURITY DEFINER VIEW `v` AS select `users`.`id` AS `id` from `users`;

-- 2026-11-29 08:38:29
