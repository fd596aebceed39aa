-- Written by hand, after mysqldump of Drupal 10: the hashes are of "drupal_sha512" (DokuWiki) and "correct horse"
/*!50503 SET NAMES utf8mb4 */;
CREATE TABLE `users` (`uid` int unsigned NOT NULL AUTO_INCREMENT, `uuid` varchar(128) NOT NULL, `langcode` varchar(12) NOT NULL);
INSERT INTO `users` (`uid`, `uuid`, `langcode`) VALUES (0,'a','en'),(1,'b','en'),(2,'c','en');
CREATE TABLE `users_field_data` (
  `uid` int unsigned NOT NULL,
  `langcode` varchar(12) NOT NULL,
  `preferred_langcode` varchar(12) DEFAULT NULL,
  `preferred_admin_langcode` varchar(12) DEFAULT NULL,
  `name` varchar(60) NOT NULL,
  `pass` varchar(255) DEFAULT NULL,
  `mail` varchar(254) DEFAULT NULL,
  `timezone` varchar(32) DEFAULT NULL,
  `status` tinyint DEFAULT NULL,
  `created` int NOT NULL,
  `default_langcode` tinyint NOT NULL,
  PRIMARY KEY (`uid`,`langcode`)
);
INSERT INTO `users_field_data` (`uid`, `langcode`, `preferred_langcode`, `preferred_admin_langcode`, `name`, `pass`, `mail`, `timezone`, `status`, `created`, `default_langcode`) VALUES (0,'en','en',NULL,'',NULL,NULL,'',0,1425445567,1),
(1,'en','pt-br',NULL,'ada','$S$D7JxIm0f7QKO3zjwVS1RH4AW8sYvmLjO0.Rn4swH0JVt6OrZ4yzZ','ada@example.com','UTC',1,1425445567,1),
(1,'de','pt-br',NULL,'ada','$S$D7JxIm0f7QKO3zjwVS1RH4AW8sYvmLjO0.Rn4swH0JVt6OrZ4yzZ','ada@example.com','UTC',1,1425445567,0),
(2,'en','en',NULL,'bob','$2y$05$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy','bob@example.com','UTC',0,1425445568,1);
CREATE TABLE `user__field_city` (`bundle` varchar(128), `deleted` tinyint, `entity_id` int unsigned, `revision_id` int unsigned, `langcode` varchar(32), `delta` int unsigned, `field_city_value` varchar(255));
INSERT INTO `user__field_city` (`bundle`, `deleted`, `entity_id`, `revision_id`, `langcode`, `delta`, `field_city_value`) VALUES ('user',0,1,1,'en',0,'kazan');
