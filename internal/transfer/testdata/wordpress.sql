-- Written by hand, after mysqldump of WordPress 6.8 with several sites: the hash is of the password "correct horse"
-- MySQL dump 10.13  Distrib 8.0.36, for Linux (x86_64)
/*!50503 SET NAMES utf8mb4 */;
DROP TABLE IF EXISTS `wp_usermeta`;
CREATE TABLE `wp_usermeta` (
  `umeta_id` bigint unsigned NOT NULL AUTO_INCREMENT,
  `user_id` bigint unsigned NOT NULL DEFAULT '0',
  `meta_key` varchar(255) COLLATE utf8mb4_unicode_520_ci DEFAULT NULL,
  `meta_value` longtext COLLATE utf8mb4_unicode_520_ci,
  PRIMARY KEY (`umeta_id`),
  KEY `user_id` (`user_id`),
  KEY `meta_key` (`meta_key`(191))
) ENGINE=InnoDB AUTO_INCREMENT=4 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_520_ci;
INSERT INTO `wp_usermeta` VALUES (1,1,'nickname','ada'),(2,1,'locale','de_DE_formal'),(3,2,'city','omsk'),(4,1,'city','kazan'),(5,1,'interests','engines'),(6,1,'interests','poetry'),(7,1,'wp_capabilities','a:1:{s:13:\"administrator\";b:1;}'),(8,2,'locale',''),(9,9,'city','omsk'),(10,3,NULL,NULL);
CREATE TABLE `wp_users` (
  `ID` bigint unsigned NOT NULL AUTO_INCREMENT,
  `user_login` varchar(60) NOT NULL DEFAULT '',
  `user_pass` varchar(255) NOT NULL DEFAULT '',
  `user_nicename` varchar(50) NOT NULL DEFAULT '',
  `user_email` varchar(100) NOT NULL DEFAULT '',
  `user_url` varchar(100) NOT NULL DEFAULT '',
  `user_registered` datetime NOT NULL DEFAULT '0000-00-00 00:00:00',
  `user_activation_key` varchar(255) NOT NULL DEFAULT '',
  `user_status` int NOT NULL DEFAULT '0',
  `display_name` varchar(250) NOT NULL DEFAULT '',
  `spam` tinyint NOT NULL DEFAULT '0',
  `deleted` tinyint NOT NULL DEFAULT '0',
  PRIMARY KEY (`ID`)
) ENGINE=InnoDB;
INSERT INTO `wp_users` VALUES (1,'ada','$2y$05$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy','ada','ada@example.com','','2015-03-04 05:06:07','',0,'Ada O\'Lovelace',0,0),(2,'Bob B.','$2y$05$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy','bob','bob@example.com','','0000-00-00 00:00:00','',0,'',1,0),
(3,'cleo','','cleo','','','2016-01-01 00:00:00','',0,'Cleo',0,0),(4,'ADA','3cb4e732631f47e6eb961f34554b7cde','ada','ada2@example.com','','2016-01-01 00:00:00','',0,'x',0,0);
-- Dump completed on 2025-04-01 10:00:00
