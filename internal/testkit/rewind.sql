CREATE SCHEMA test_rewind;

CREATE TABLE test_rewind.kept (run text, shape text);

-- shape returns a digest of all that tests could change but rows: columns, indexes,
-- constraints, storage parameters, functions, triggers, privileges.
CREATE FUNCTION test_rewind.shape() RETURNS text LANGUAGE sql AS $$
	SELECT md5(string_agg(line, E'\n' ORDER BY line)) FROM (
		SELECT concat_ws(' ', 'relation', relname, relkind, relpersistence, relrowsecurity, reloptions, relacl) AS line
		FROM pg_class WHERE relnamespace = 'public'::regnamespace
		UNION ALL
		SELECT concat_ws(' ', 'column', a.attrelid::regclass, a.attnum, a.attname, a.atttypid, a.attnotnull, a.attidentity, a.attstorage,
			a.attstattarget, pg_get_expr(d.adbin, d.adrelid))
		FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0
		UNION ALL
		SELECT concat_ws(' ', 'index', pg_get_indexdef(i.indexrelid), i.indisvalid)
		FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relnamespace = 'public'::regnamespace
		UNION ALL
		SELECT concat_ws(' ', 'constraint', conrelid::regclass, pg_get_constraintdef(oid))
		FROM pg_constraint WHERE connamespace = 'public'::regnamespace
		UNION ALL
		SELECT concat_ws(' ', 'function', oid::regprocedure, md5(prosrc)) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
		UNION ALL
		SELECT concat_ws(' ', 'trigger', t.tgrelid::regclass, t.tgname, t.tgenabled)
		FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = 'public'::regnamespace AND NOT t.tgisinternal
		UNION ALL
		SELECT concat_ws(' ', 'schema', nspacl) FROM pg_namespace WHERE nspname = 'public'
	) AS lines
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
BEGIN
	IF NOT EXISTS (SELECT FROM test_rewind.kept WHERE run = this_run AND shape = test_rewind.shape()) THEN
		RETURN false;
	END IF;
	SET LOCAL session_replication_role = replica; -- no foreign keys: the order of tables does not matter
	FOR t IN SELECT oid::regclass AS name FROM pg_class
		WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 1000000 LOOP
		EXECUTE format('TRUNCATE %s CASCADE', t.name); -- a deletion would leave its pages
	END LOOP;
	FOR t IN SELECT oid::regclass AS name, to_regclass(format('test_rewind.%I', 'rows_' || relname)) AS rows
		FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' LOOP
		EXECUTE format('DELETE FROM %s', t.name);
		IF t.rows IS NOT NULL THEN
			EXECUTE format('INSERT INTO %s OVERRIDING SYSTEM VALUE TABLE %s', t.name, t.rows);
		END IF;
	END LOOP;
	PERFORM setval(c.oid, s.seqstart, false)
	FROM pg_class c JOIN pg_sequence s ON s.seqrelid = c.oid WHERE c.relnamespace = 'public'::regnamespace;
	RETURN true;
END
$$;
