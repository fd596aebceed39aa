-- Written by hand, after mysqldump of Joomla 4: the hashes are of the password "correct horse"
/*!50503 SET NAMES utf8mb4 */;
CREATE TABLE `x7k2_users` (
  `id` int NOT NULL AUTO_INCREMENT,
  `name` varchar(400) NOT NULL DEFAULT '',
  `username` varchar(150) NOT NULL DEFAULT '',
  `email` varchar(100) NOT NULL DEFAULT '',
  `password` varchar(100) NOT NULL DEFAULT '',
  `block` tinyint NOT NULL DEFAULT '0',
  `sendEmail` tinyint DEFAULT '0',
  `registerDate` datetime NOT NULL,
  `lastvisitDate` datetime DEFAULT NULL,
  `activation` varchar(100) NOT NULL DEFAULT '',
  `params` text NOT NULL,
  PRIMARY KEY (`id`)
);
INSERT INTO `x7k2_users` VALUES (42,'Ada Lovelace','ada','ada@example.com','$2y$05$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy',0,1,'2015-03-04 05:06:07',NULL,'0','{\"admin_style\":\"\",\"language\":\"de-DE\"}'),(43,'Bob','bob','bob@example.com','1718b1e30bf3987e092e9bf62a31b1a7:Zr8aQ',1,0,'2015-03-04 05:06:08',NULL,'','');
CREATE TABLE `x7k2_user_profiles` (`user_id` int NOT NULL, `profile_key` varchar(100) NOT NULL, `profile_value` text NOT NULL, `ordering` int NOT NULL DEFAULT '0');
INSERT INTO `x7k2_user_profiles` VALUES (42,'profile.city','\"kazan\"',1);
CREATE TABLE `x7k2_fields_values` (`field_id` int unsigned NOT NULL, `item_id` varchar(255) NOT NULL, `value` text);
INSERT INTO `x7k2_fields_values` VALUES (3,'42','36');
