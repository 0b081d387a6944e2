-- A role that reads every table and changes none. It may run again and again.
\getenv password GRAFANA_PASSWORD
SELECT 'CREATE ROLE grafana LOGIN' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'grafana') \gexec
ALTER ROLE grafana PASSWORD :'password' CONNECTION LIMIT 20;
GRANT pg_read_all_data TO grafana;
