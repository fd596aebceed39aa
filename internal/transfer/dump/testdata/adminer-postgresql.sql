-- Made on Debian 12 with Adminer 4.8.1 and PostgreSQL 15: the page Export, DROP+CREATE and INSERT
-- Adminer 4.8.1 PostgreSQL 15.18 (Debian 15.18-0+deb12u1) dump

DROP TABLE IF EXISTS "users";
DROP SEQUENCE IF EXISTS users_id_seq;
CREATE SEQUENCE users_id_seq INCREMENT 1 MINVALUE 1 MAXVALUE 2147483647 CACHE 1;

CREATE TABLE "public"."users" (
    "id" integer DEFAULT nextval('users_id_seq') NOT NULL,
    "name" text,
    "photo" bytea,
    "ok" boolean,
    CONSTRAINT "users_pkey" PRIMARY KEY ("id")
) WITH (oids = false);

INSERT INTO "users" ("id", "name", "photo", "ok") VALUES
(1,	'Ada O''Lo\ve
lace; --\',	'\x00ff',	't'),
(2,	'Боб # /* x',	NULL,	'f');

-- 2026-11-29 08:38:30.759112+00
