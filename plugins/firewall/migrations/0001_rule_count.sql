-- The number of rules, kept by the database itself: counting them would cost more with every rule there is.
INSERT INTO `firewall_settings` (`name`, `value`) SELECT 'rule_count', CAST(count(*) AS text) FROM `firewall_rules`;
--> statement-breakpoint
CREATE TRIGGER `firewall_rules_added` AFTER INSERT ON `firewall_rules` BEGIN
	UPDATE `firewall_settings` SET `value` = CAST(CAST(`value` AS integer) + 1 AS text) WHERE `name` = 'rule_count';
END;
--> statement-breakpoint
CREATE TRIGGER `firewall_rules_removed` AFTER DELETE ON `firewall_rules` BEGIN
	UPDATE `firewall_settings` SET `value` = CAST(CAST(`value` AS integer) - 1 AS text) WHERE `name` = 'rule_count';
	DELETE FROM `firewall_pending` WHERE `rule` = OLD.`id`;
END;
