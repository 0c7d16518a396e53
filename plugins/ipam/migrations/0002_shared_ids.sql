CREATE TABLE `ipam_counters` (
	`name` text PRIMARY KEY NOT NULL,
	`value` integer NOT NULL
);
--> statement-breakpoint
DROP INDEX `ipam_pools_subnet`;--> statement-breakpoint
CREATE INDEX `ipam_pools_shared` ON `ipam_pools` (`tenant_id`,`family`,`first`) WHERE owner = '';--> statement-breakpoint
CREATE INDEX `ipam_pools_own` ON `ipam_pools` (`tenant_id`,`family`,`first`) WHERE owner <> '';--> statement-breakpoint
CREATE INDEX `ipam_pools_tenant` ON `ipam_pools` (`tenant_id`,`id`);--> statement-breakpoint
UPDATE `ipam_allocations` SET `pool_id` = `pool_id` + 1099511627776 WHERE `pool_id` IN (SELECT `id` FROM `ipam_pools` WHERE owner <> '');--> statement-breakpoint
UPDATE `ipam_free` SET `pool` = `pool` + 1099511627776 WHERE `pool` IN (SELECT `id` FROM `ipam_pools` WHERE owner <> '');--> statement-breakpoint
UPDATE `ipam_pools` SET `id` = `id` + 1099511627776 WHERE owner <> '';--> statement-breakpoint
INSERT INTO `ipam_counters` SELECT 'shared', `seq` FROM `sqlite_sequence` WHERE `name` = 'ipam_pools' AND `seq` < 1099511627776;--> statement-breakpoint
INSERT INTO `ipam_counters` SELECT 'own', max(`id`) FROM `ipam_pools` WHERE owner <> '' HAVING max(`id`) IS NOT NULL;
