-- Search path: what the functions' names mean is settled here, not by the session that calls them.
--
-- A session may have another schema in front, with tables or operators of the same names: another outbox, or something
-- hostile. A trigger would then lock a lane there, and leave the event here without one. pg_catalog comes first of itself;
-- pg_temp, which would come first of all, is named and so comes last. The functions in SQL, the views, defaults and
-- constraints need none of this: what their names mean was settled when they were created.
-- CREATE OR REPLACE forgets the setting: a later migration that replaces a function sets it again. So does whoever renames
-- the schema.
DO $$
DECLARE
    v_schema CONSTANT regnamespace := (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'outbox_event'::regclass);
    v_function regprocedure;
BEGIN
    FOR v_function IN
        SELECT p.oid FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
         WHERE p.pronamespace = v_schema AND starts_with(p.proname, 'outbox_') AND l.lanname = 'plpgsql'
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %s, pg_temp', v_function, v_schema);
    END LOOP;
END $$;
