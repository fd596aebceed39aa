-- Written by hand, after pg_dump of Django 3.2: the hashes are of the password "correct horse"
--
-- PostgreSQL database dump
--
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
CREATE TABLE public.auth_user (
    id integer NOT NULL,
    password character varying(128) NOT NULL,
    last_login timestamp with time zone,
    is_superuser boolean NOT NULL,
    username character varying(150) NOT NULL,
    first_name character varying(150) NOT NULL,
    last_name character varying(150) NOT NULL,
    email character varying(254) NOT NULL,
    is_staff boolean NOT NULL,
    is_active boolean NOT NULL,
    date_joined timestamp with time zone NOT NULL
);
COPY public.auth_user (id, password, last_login, is_superuser, username, first_name, last_name, email, is_staff, is_active, date_joined) FROM stdin;
1	bcrypt$$2y$05$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy	\N	f	ada	Ada	Love\\lace	ada@example.com	t	t	2015-03-04 05:06:07.891+00
2	!x1aURTnzfH1rsRu4cthzQPf326teylMtEIxE8etD	\N	f	bob			bob@example.com	f	f	2015-03-04 05:06:08+00
\.
--
-- PostgreSQL database dump complete
--
