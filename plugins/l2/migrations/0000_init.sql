CREATE TABLE `l2_bridges` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`name` text NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `l2_bridges_name_unique` ON `l2_bridges` (`name`);--> statement-breakpoint
CREATE TABLE `l2_ports` (
	`bridge` text NOT NULL,
	`interface` text NOT NULL,
	PRIMARY KEY(`bridge`, `interface`)
);
--> statement-breakpoint
CREATE UNIQUE INDEX `l2_ports_interface_unique` ON `l2_ports` (`interface`);--> statement-breakpoint
CREATE TABLE `l2_settings` (
	`name` text PRIMARY KEY NOT NULL,
	`value` text NOT NULL
);
