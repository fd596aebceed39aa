CREATE SCHEMA test_rewind;

CREATE TABLE test_rewind.kept (run text, shape text);

-- shape returns a digest of the versions of all that tests could change but rows: relations
-- with their parameters and privileges, columns, indexes, constraints, functions, triggers.
CREATE FUNCTION test_rewind.shape() RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ',
		(SELECT sum(hashint8extended(oid::bigint, xmin::text::bigint)) FROM pg_class WHERE relnamespace = 'public'::regnamespace),
		(SELECT sum(hashint8extended(attrelid::bigint, xmin::text::bigint)) FROM pg_attribute WHERE attrelid >= 16384),
		(SELECT sum(hashint8extended(oid::bigint, xmin::text::bigint)) FROM pg_attrdef),
		(SELECT sum(hashint8extended(indexrelid::bigint, xmin::text::bigint)) FROM pg_index WHERE indrelid >= 16384),
		(SELECT sum(hashint8extended(oid::bigint, xmin::text::bigint)) FROM pg_constraint WHERE oid >= 16384),
		(SELECT sum(hashint8extended(oid::bigint, xmin::text::bigint)) FROM pg_proc WHERE oid >= 16384),
		(SELECT sum(hashint8extended(oid::bigint, xmin::text::bigint)) FROM pg_trigger),
		(SELECT sum(hashint8extended(oid::bigint, xmin::text::bigint)) FROM pg_namespace))
$$;

-- keep remembers the rows and the shape of public.
CREATE FUNCTION test_rewind.keep(run text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	t record;
	filled boolean;
BEGIN
	FOR t IN SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' LOOP
		EXECUTE format('SELECT EXISTS (SELECT FROM public.%I)', t.name) INTO filled;
		IF filled THEN
			EXECUTE format('CREATE TABLE test_rewind.%I AS TABLE public.%I', 'rows_' || t.name, t.name);
		END IF;
	END LOOP;
	INSERT INTO test_rewind.kept VALUES (run, test_rewind.shape());
END
$$;

-- rewind gives public its first rows back, and reports whether it could.
CREATE FUNCTION test_rewind.rewind(this_run text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	t record;
	truncated boolean := false;
BEGIN
	IF NOT EXISTS (SELECT FROM test_rewind.kept WHERE run = this_run AND shape = test_rewind.shape()) THEN
		RETURN false;
	END IF;
	SET LOCAL session_replication_role = replica; -- no foreign keys: the order of tables does not matter
	FOR t IN SELECT oid::regclass AS name FROM pg_class
		WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 1000000 LOOP
		EXECUTE format('TRUNCATE %s CASCADE', t.name); -- a deletion would leave its pages
		truncated := true;
	END LOOP;
	FOR t IN SELECT oid::regclass AS name, to_regclass(format('test_rewind.%I', 'rows_' || relname)) AS rows
		FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' LOOP
		IF pg_relation_size(t.name) > 0 THEN
			EXECUTE format('DELETE FROM %s', t.name);
		END IF;
		IF t.rows IS NOT NULL THEN
			EXECUTE format('INSERT INTO %s OVERRIDING SYSTEM VALUE TABLE %s', t.name, t.rows);
		END IF;
	END LOOP;
	PERFORM setval(c.oid, s.seqstart, false)
	FROM pg_class c JOIN pg_sequence s ON s.seqrelid = c.oid WHERE c.relnamespace = 'public'::regnamespace;
	IF truncated THEN
		UPDATE test_rewind.kept SET shape = test_rewind.shape(); -- an emptied table is another version
	END IF;
	RETURN true;
END
$$;
