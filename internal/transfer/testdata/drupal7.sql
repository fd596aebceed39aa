-- Written by hand, after mysqldump of Drupal 7: the hashes are DokuWiki's vectors, of "drupal_sha512" and "pouette1234"
/*!40101 SET NAMES utf8mb4 */;
CREATE TABLE `d_users` (
  `uid` int(10) unsigned NOT NULL DEFAULT '0',
  `name` varchar(60) NOT NULL DEFAULT '',
  `pass` varchar(128) NOT NULL DEFAULT '',
  `mail` varchar(254) DEFAULT '',
  `created` int(11) NOT NULL DEFAULT '0',
  `access` int(11) NOT NULL DEFAULT '0',
  `status` tinyint(4) NOT NULL DEFAULT '0',
  `language` varchar(12) NOT NULL DEFAULT '',
  `init` varchar(254) DEFAULT '',
  `data` longblob
);
INSERT INTO `d_users` VALUES (0,'','','',0,0,0,'','',NULL),(1,'ada','$S$D7JxIm0f7QKO3zjwVS1RH4AW8sYvmLjO0.Rn4swH0JVt6OrZ4yzZ','ada@example.com',1425445567,0,1,'de','',0x613a303a7b7d),(5,'bob','U$S$9c47LGZuhR6TvhRQXzymkJIQ3mXthUCc6KDEGTt4B7eOL/H9Ykuy','bob@example.com',1425445568,0,0,'','','b:0;');
CREATE TABLE `d_field_data_field_city` (
  `entity_type` varchar(128) NOT NULL DEFAULT '',
  `bundle` varchar(128) NOT NULL DEFAULT '',
  `deleted` tinyint(4) NOT NULL DEFAULT '0',
  `entity_id` int(10) unsigned NOT NULL,
  `delta` int(10) unsigned NOT NULL,
  `field_city_value` varchar(255) DEFAULT NULL
);
INSERT INTO `d_field_data_field_city` VALUES ('node','page',0,1,0,'omsk'),('user','user',0,1,0,'kazan');
