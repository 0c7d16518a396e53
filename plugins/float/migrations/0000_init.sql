CREATE TABLE `float_addresses` (
	`number` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`id` text NOT NULL,
	`ip` text NOT NULL,
	`primary` text NOT NULL,
	`standby` text NOT NULL,
	`created_at` text NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `float_addresses_id_unique` ON `float_addresses` (`id`);--> statement-breakpoint
CREATE UNIQUE INDEX `float_addresses_ip_unique` ON `float_addresses` (`ip`);--> statement-breakpoint
CREATE INDEX `float_addresses_primary` ON `float_addresses` (`primary`);--> statement-breakpoint
CREATE TABLE `float_place` (
	`id` integer PRIMARY KEY NOT NULL,
	`interface` text NOT NULL
);
