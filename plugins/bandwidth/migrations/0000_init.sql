CREATE TABLE `bandwidth_ceilings` (
	`id` integer PRIMARY KEY NOT NULL,
	`gbps` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `bandwidth_ceilings_one` ON `bandwidth_ceilings` (`id`);--> statement-breakpoint
CREATE TABLE `bandwidth_limits` (
	`seq` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`id` text NOT NULL,
	`mac` text NOT NULL,
	`interface` integer NOT NULL,
	`rate` integer NOT NULL,
	`burst` integer NOT NULL,
	`guaranteed` integer NOT NULL,
	`direction` text NOT NULL,
	`pool_id` text NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `bandwidth_limits_id_unique` ON `bandwidth_limits` (`id`);--> statement-breakpoint
CREATE UNIQUE INDEX `bandwidth_limits_mac_unique` ON `bandwidth_limits` (`mac`);--> statement-breakpoint
CREATE INDEX `bandwidth_limits_pool` ON `bandwidth_limits` (`pool_id`) WHERE pool_id <> '';--> statement-breakpoint
CREATE TABLE `bandwidth_members` (
	`mac` text PRIMARY KEY NOT NULL,
	`pool_id` text NOT NULL,
	`rate` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `bandwidth_members_pool` ON `bandwidth_members` (`pool_id`,`mac`);--> statement-breakpoint
CREATE TABLE `bandwidth_pools` (
	`seq` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`id` text NOT NULL,
	`number` integer NOT NULL,
	`name` text NOT NULL,
	`total` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `bandwidth_pools_id_unique` ON `bandwidth_pools` (`id`);--> statement-breakpoint
CREATE UNIQUE INDEX `bandwidth_pools_number_unique` ON `bandwidth_pools` (`number`);--> statement-breakpoint
CREATE TABLE `bandwidth_quotas` (
	`seq` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`id` text NOT NULL,
	`mac` text NOT NULL,
	`slot` integer NOT NULL,
	`limit_bytes` integer NOT NULL,
	`action` text NOT NULL,
	`enforced` integer NOT NULL,
	`used` integer NOT NULL,
	`month` integer NOT NULL,
	`status` text NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `bandwidth_quotas_id_unique` ON `bandwidth_quotas` (`id`);--> statement-breakpoint
CREATE UNIQUE INDEX `bandwidth_quotas_mac_unique` ON `bandwidth_quotas` (`mac`);--> statement-breakpoint
CREATE UNIQUE INDEX `bandwidth_quotas_slot_unique` ON `bandwidth_quotas` (`slot`);--> statement-breakpoint
CREATE TABLE `bandwidth_shapes` (
	`mac` text PRIMARY KEY NOT NULL,
	`number` integer NOT NULL,
	`pool` integer NOT NULL,
	`shard` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `bandwidth_shapes_number_unique` ON `bandwidth_shapes` (`number`);--> statement-breakpoint
CREATE INDEX `bandwidth_shapes_shard` ON `bandwidth_shapes` (`shard`);--> statement-breakpoint
CREATE TABLE `bandwidth_shards` (
	`shard` integer PRIMARY KEY NOT NULL
);
