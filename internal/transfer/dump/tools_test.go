package dump_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/transfer/dump"
)

// ended reads a dump and returns its rows without their lines, and whether its end was marked.
func ended(text string) (rows string, marked bool, err error) {
	marked, err = dump.ReadSQL(strings.NewReader(text), func(name string, columns []string) (*dump.Table, error) {
		if name != "users" || !slices.Contains(columns, "name") {
			return nil, nil
		}
		return &dump.Table{Columns: []string{"id", "name"}, Row: func(_ int, values []dump.Value) error {
			rows += string(values[0].Text) + " " + string(values[1].Text) + "\n"
			return nil
		}}, nil
	})
	return rows, marked, err
}

const (
	ada = "1 Ada O'Lo\\\"ve\nlace; --\n"
	bob = "2 Боб # /* x\n"

	toolTable = "DROP TABLE IF EXISTS `users`;\nCREATE TABLE `users` (\n  `id` bigint unsigned NOT NULL,\n  `name` varchar(250),\n  `photo` blob,\n  `flag` bit(1)\n) ENGINE=InnoDB;\n"
	toolRows  = "INSERT INTO `users` VALUES (1, 'Ada O\\'Lo\\\\\\\"ve\\nlace; --', 0x00ff, b'1'),(2, 'Боб # /* x', NULL, b'0');\n"
	saves     = "/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;\n/*!40101 SET NAMES utf8mb4 */;\n"
	setsBack  = "/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;\n"
)

// TestReadSQL_EveryTool reads dumps of the tools that sites use, whole and without their ends. Those in
// testdata were made with the tools, these here were written by hand after their sources and dumps.
func TestReadSQL_EveryTool(t *testing.T) {
	const heidi = "-- ------\n-- Host:                         127.0.0.1\n-- Server version:               8.0.30 - MySQL Community Server - GPL\n" +
		"-- Server OS:                    Win64\n-- HeidiSQL Version:             12.1.0.6537\n-- ------\n\n"
	tests := map[string]struct {
		begin, end string // of the dump; without the end it is cut off
		unmarked   bool   // the tool marks no end
	}{
		"mysqldump, as WP-CLI, DBeaver and hosting panels run it": {begin: "-- MySQL dump 10.13\n" + saves + toolTable + toolRows + setsBack, end: "-- Dump completed on 2024-01-01\n"},
		"mysqldump without comments":                              {begin: saves + toolTable + toolRows, end: setsBack},
		"mysqldump-php":                                           {begin: "-- mysqldump-php https://github.com/ifsnop/mysqldump-php\n" + saves + toolTable + toolRows + setsBack, end: "-- Dump completed on: Fri, 09 Jun 2023 10:29:01 +0200\n"},
		"HeidiSQL": {begin: heidi + saves + "/*!50503 SET NAMES utf8mb4 */;\n" + strings.Replace(toolTable, "TABLE `", "TABLE IF NOT EXISTS `", 1) +
			"/*!40000 ALTER TABLE `users` DISABLE KEYS */;\n" + strings.Replace(toolRows, "0x", "_binary 0x", 1),
			end: "/*!40101 SET SQL_MODE=IFNULL(@OLD_SQL_MODE, '') */;\n" + setsBack + "/*!40111 SET SQL_NOTES=IFNULL(@OLD_SQL_NOTES, 1) */;\n"},
		"MySQLDumper": {begin: "-- TABLE-INFO\n-- TABLE|users|2|2048|2019-01-01 00:00:00|MyISAM\n-- EOF TABLE-INFO\n--\n-- Dump by MySQLDumper 1.24.4 (http://mysqldumper.net)\n" +
			"/*!40101 SET NAMES 'utf8' */;\nSET FOREIGN_KEY_CHECKS=0;\n" + toolTable + toolRows + "SET FOREIGN_KEY_CHECKS=1;\n", end: "-- EOB\n\n"},
		"BackWPup": {begin: "-- ------\n-- Backup with BackWPup ver.: 3.2\n-- Blog Name: x\n" + saves + toolTable + "LOCK TABLES `users` WRITE;\n" + toolRows + "UNLOCK TABLES;\n" + setsBack,
			end: "\n-- Backup completed on 2024-01-01 00:00:00\n"},
		"UpdraftPlus, which tries mysqldump first": {begin: "# WordPress MySQL database backup\n# Created by UpdraftPlus version 2.16.14.1 (https://updraftplus.com)\n# Table prefix: wp_\n" +
			saves + "\n# Table: `users`\n" + toolTable + "LOCK TABLES `users` WRITE;\n\n# Delete any existing table `users`\n\n" + toolTable + "# Data contents of table `users`\n\n" +
			toolRows + "# End of data contents of table `users`\n", end: setsBack},
		"Duplicator": {begin: "/* DUPLICATOR-LITE (PHP BUILD MODE) MYSQL SCRIPT CREATED ON : 2023-02-07 14:01:09 */\n\n/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;\n" +
			toolTable + "\n/* INSERT TABLE DATA: users */\n" + `INSERT INTO ` + "`users`" + ` VALUES("1", "Ada O\'Lo\\\"ve` + `\nlace; --", "", "1");` + "\nINSERT INTO `users` VALUES(\"2\", \"Боб # /* x\", NULL, \"0\");\n" +
			"SET FOREIGN_KEY_CHECKS = 1; \n\n/* Duplicator WordPress Timestamp: 2023-02-07 14:01:09*/\n", end: "/* DUPLICATOR_MYSQLDUMP_EOF */\n"},
		"Sequel Ace":                  {begin: "# ****\n# Sequel Ace SQL dump\n# Version 20035\n#\n" + saves + "# Dump of table users\n# ----\n\n" + toolTable + toolRows, end: setsBack},
		"All-in-One WP Migration":     {begin: "-- All-in-One WP Migration SQL Dump\n-- https://servmask.com/\n--\n" + toolTable + "START TRANSACTION;\n" + toolRows, end: "COMMIT;\n", unmarked: true},
		"Sypex Dumper":                {begin: "#SKD101|site|1|2014.02.26 00:00:23|2|2\n\n" + toolTable + toolRows, unmarked: true},
		"Navicat":                     {begin: "/*\n Navicat Premium Data Transfer\n\n Source Server         : x\n Source Server Type    : MySQL\n Date: 31/08/2023 11:13:31\n*/\n\nSET NAMES utf8mb4;\n" + toolTable + toolRows, unmarked: true},
		"DBeaver's SQL of a result":   {begin: "INSERT INTO site.users (id,name,photo,flag) VALUES\n\t (1,'Ada O''Love\nlace; --','00ff'::bytea,true),\n\t (2,'Боб # /* x',NULL::character varying(3)[],false);\n", unmarked: true},
		"statements of no known tool": {begin: toolTable + toolRows, unmarked: true},
	}
	for file, end := range map[string]string{
		"adminer.sql": "\n-- 2026-11-29", "adminer-postgresql.sql": "\n-- 2026-11-29", "phpmyadmin.sql": "/*!40101 SET CHARACTER_SET_CLIENT=@OLD", "mydumper.sql": "", "mariadb-dump.sql": "/*!40101 SET CHARACTER_SET_CLIENT=@OLD",
	} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		test := tests[file]
		if test.begin, test.unmarked = string(text), end == ""; end != "" {
			i := strings.LastIndex(test.begin, end)
			test.begin, test.end = test.begin[:i], test.begin[i:]
		}
		tests[file] = test
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			want := ada + bob
			switch {
			case name == "adminer-postgresql.sql":
				want = "1 Ada O'Lo\\ve\nlace; --\\\n" + bob
			case strings.HasPrefix(name, "DBeaver"):
				want = "1 Ada O'Love\nlace; --\n" + bob
			}
			if rows, marked, err := ended(test.begin + test.end); err != nil || rows != want || marked == test.unmarked {
				t.Errorf("got %q, marked %v, %v; want %q", rows, marked, err, want)
			}
			if rows, _, err := ended(test.begin); test.end != "" && (err == nil || !strings.Contains(err.Error(), "the dump is cut off: ")) {
				t.Errorf("without its end: got %q, %v, want a refusal", rows, err)
			}
		})
	}
}

func TestReadSQL_OtherFilesAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"-- Server version:               PostgreSQL 15.3\n-- HeidiSQL Version: 12\n" + saves:                   "line 2: a dump of HeidiSQL of another system",
		"-- Serverversion:  Microsoft SQL Server 2019 (RTM)\n-- HeidiSQL Version: 12\n" + saves:                 "line 2: a dump of HeidiSQL of another system",
		"-- Adminer 4.8.1 SQLite 3.40.1 dump\n":                                                                 "line 1: a dump of Adminer of another system",
		"/*\n Navicat Premium Data Transfer\n\n Source Server : MySQL\n Source Server Type    : Oracle\n*/":     "line 1: a dump of Navicat of another system",
		saves + `CREATE TABLE IF NOT EXISTS "users" (id int);`:                                                  "line 3: a name in double quotes",
		saves + `INSERT INTO "users" (id) VALUES ('\');`:                                                        "line 3: a name in double quotes",
		"mysqldump: [Warning] Using a password on the command line interface can be insecure.\n-- MySQL dump\n": "line 1: a message of mysqldump is in the file",
		saves + "mysqldump: Couldn't execute 'SELECT 1':\n":                                                     "line 3: a message of a tool is in the dump",
		"<?xml version=\"1.0\"?>\n<mysqldump xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\">":          "line 1: the file is XML of mysqldump: make the dump without --xml",
		"<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<!--\n- phpMyAdmin XML Dump":                               "line 1: the file is XML, as phpMyAdmin",
		"[\n{\"type\":\"header\",\"version\":\"5.2.1\",\"comment\":\"Export to JSON plugin for PHPMyAdmin\"},":  "line 1: the file is JSON, as phpMyAdmin",
		"{\n    \"dumper\": \"mysqlsh Ver 8.0.36\",":                                                            "line 1: a part of a dump of MySQL Shell",
		"<?php\n/**\n * Export to PHP Array":                                                                    "line 1: the file is PHP, as phpMyAdmin",
		"# Started dump at: 2024-01-01 00:00:00\n":                                                              "line 1: the file is mydumper's metadata",
		"REM INSERTING into USERS\nSET DEFINE OFF;\n":                                                           "line 1: a script of Oracle's tools",
		"USE [site]\nGO\n": "line 1: a script of SQL Server",
		"PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n": "line 1: a dump of SQLite: export the users as CSV",
		"1\tada\tx\n": "line 1: this is not SQL",
	} {
		_, err := dump.ReadSQL(strings.NewReader(text), func(name string, columns []string) (*dump.Table, error) {
			if name != "users" {
				return nil, nil
			}
			return &dump.Table{Columns: columns, Row: func(int, []dump.Value) error { return nil }}, nil
		})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.60q: got %v, want %s", text, err, want)
		}
	}
}

func TestPlain_OtherFilesAreNamed(t *testing.T) {
	tar := strings.Repeat("x", 257) + "ustar\x0000"
	for text, want := range map[string]string{
		"":                            "is empty",
		" \r\n\n":                     "is empty",
		"PGDMP\x01\x0e":               "a dump in PostgreSQL's custom format",
		"toc.dat\x00\x00" + tar[9:]:   "a dump in PostgreSQL's tar format",
		tar:                           "a tar archive",
		"PK\x03\x04\x14\x00":          "unzip",
		"\x28\xb5\x2f\xfd\x24":        "zstd -d",
		"\xfd7zXZ\x00\x00\x04":        "xz -d",
		"7z\xbc\xaf\x27\x1c\x00":      "a 7-Zip archive",
		"Rar!\x1a\x07\x01\x00":        "a RAR archive",
		"JPA\x13\x00":                 "an archive of Akeeba Backup",
		"package.json\x00\x00":        "an archive of All-in-One WP Migration",
		"SQLite format 3\x00\x10":     "a database of SQLite",
		"\xff\xfe-\x00-\x00":          "is UTF-16",
		"\ufeff\n<!DOCTYPE html><h1>": "a page of a website",
		"<br />\n<b>Fatal error</b>:": "a page of a website",
		"\x91\x8a\x00\x00\x00\x00":    "is no text",
	} {
		var compressed bytes.Buffer
		z := gzip.NewWriter(&compressed)
		_, _ = io.WriteString(z, text)
		_ = z.Close()
		for _, file := range []io.Reader{strings.NewReader(text), &compressed} {
			if _, err := dump.Plain(file); err == nil || !strings.HasPrefix(err.Error(), "line 1: the file ") || !strings.Contains(err.Error(), want) {
				t.Errorf("%.20q: got %v, want %s", text, err, want)
			}
		}
	}
}

func TestPlain_Uncompresses(t *testing.T) {
	bz2, err := base64.StdEncoding.DecodeString("QlpoOTFBWSZTWc9iapAAAAHQgAAQQAIAQCAAIZpoM00WZ4u5IpwoSGexNUgA")
	if err != nil {
		t.Fatal(err)
	}
	var compressed, twice bytes.Buffer
	for to, text := range map[*bytes.Buffer][]byte{&compressed: []byte("\ufeff-- x\n"), &twice: bz2} {
		z := gzip.NewWriter(to)
		_, _ = z.Write(text)
		_ = z.Close()
	}
	for name, file := range map[string]io.Reader{"gzip": &compressed, "bzip2": bytes.NewReader(bz2), "both": &twice, "none": strings.NewReader("-- x\n")} {
		plain, err := dump.Plain(file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if text, err := io.ReadAll(plain); err != nil || string(text) != "-- x\n" {
			t.Errorf("%s: got %q, %v", name, text, err)
		}
	}
}

// A dump that is cut off is found before the one that follows it, and within one of all databases.
func TestReadSQL_SecondHead(t *testing.T) {
	const mysqldump, end = "-- MySQL dump 10.13\n", "-- Dump completed on 2024-01-01\n"
	const all, one, oneEnd = "-- PostgreSQL database cluster dump\n", "-- PostgreSQL database dump\n", "-- PostgreSQL database dump complete\n"
	for what, test := range map[string]struct{ dump, want string }{
		"a whole one and another":      {mysqldump + end + mysqldump + end, ""},
		"a part of one before another": {mysqldump + mysqldump + end, "line 2: the dump before here is cut off"},
		"a cluster":                    {all + one + oneEnd + "-- PostgreSQL database cluster dump complete\n", ""},
		"a cluster that is cut off":    {all + one + oneEnd, "the last line that pg_dumpall writes is missing"},
	} {
		_, marked, err := ended(test.dump)
		if test.want == "" && (err != nil || !marked) || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v, %v, want %q", what, marked, err, test.want)
		}
	}
}
