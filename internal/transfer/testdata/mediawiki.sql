-- Written by hand, after mariadb-dump of MediaWiki 1.39: the hashes are of the password "correct horse"
/*!40101 SET NAMES utf8mb4 */;
CREATE TABLE `mw_user` (
  `user_id` int(10) unsigned NOT NULL AUTO_INCREMENT,
  `user_name` varbinary(255) NOT NULL DEFAULT '',
  `user_real_name` varbinary(255) NOT NULL DEFAULT '',
  `user_password` tinyblob NOT NULL,
  `user_newpassword` tinyblob NOT NULL,
  `user_email` tinyblob NOT NULL,
  `user_token` binary(32) NOT NULL DEFAULT '\0\0\0\0',
  `user_email_authenticated` binary(14) DEFAULT NULL,
  `user_registration` binary(14) DEFAULT NULL,
  PRIMARY KEY (`user_id`)
) ENGINE=InnoDB;
INSERT INTO `mw_user` VALUES
(1,'Ada Lovelace','Ada',':A:3cb4e732631f47e6eb961f34554b7cde','','ada@example.com','\0\0','20150304050608','20150304050607'),
(2,'MediaWiki default','','','','','*** INVALID ***\0',NULL,'20150304050607'),
(3,_binary 'Bob',0x,0x2432792430352433324E566946493036744549413835414B684C75492E6F4B4B652E507A2E6E6E64742E446C386E4A696A753555497852424A6B5279,'','bob@example.com','\0',NULL,NULL);
CREATE TABLE `mw_user_properties` (
  `up_user` int(10) unsigned NOT NULL,
  `up_property` varbinary(255) NOT NULL,
  `up_value` blob DEFAULT NULL
);
INSERT INTO `mw_user_properties` VALUES (1,'language','pt-br'),(1,'gender','female');
