CREATE TABLE `dns_keys` (
	`zone_id` integer PRIMARY KEY NOT NULL,
	`csk` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `dns_records` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`zone_id` integer NOT NULL,
	`name` text NOT NULL,
	`type` text NOT NULL,
	`value` text NOT NULL,
	`ttl` integer NOT NULL,
	`subnet` text NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `dns_records_place` ON `dns_records` (`zone_id`,`name`,`type`,`subnet`,`value`);--> statement-breakpoint
CREATE INDEX `dns_records_zone` ON `dns_records` (`zone_id`,`id`);--> statement-breakpoint
CREATE TABLE `dns_zones` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`name` text NOT NULL,
	`serial` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `dns_zones_name_unique` ON `dns_zones` (`name`);