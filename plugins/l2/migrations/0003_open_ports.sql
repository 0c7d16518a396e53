-- A store that no agent has used yet has no stream of events: its node begins with closed ports. Others stay as they are.
INSERT INTO `l2_settings` (`name`, `value`)
SELECT 'open_ports', CASE WHEN EXISTS (SELECT 1 FROM `core_marks` WHERE `name` = 'event_stream') THEN 'open' ELSE 'closed' END;
