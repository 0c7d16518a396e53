CREATE TABLE `flows_addresses` (
	`mac_id` integer NOT NULL,
	`address` text NOT NULL,
	`first_slot` integer NOT NULL,
	`last_slot` integer NOT NULL,
	PRIMARY KEY(`mac_id`, `address`)
);
--> statement-breakpoint
CREATE TABLE `flows_counters` (
	`id` integer PRIMARY KEY NOT NULL,
	`born` integer NOT NULL,
	`bytes_in` integer NOT NULL,
	`bytes_out` integer NOT NULL,
	`packets_in` integer NOT NULL,
	`packets_out` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `flows_days` (
	`id` integer PRIMARY KEY NOT NULL,
	`bytes_in` integer NOT NULL,
	`bytes_out` integer NOT NULL,
	`packets_in` integer NOT NULL,
	`packets_out` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `flows_macs` (
	`id` integer PRIMARY KEY NOT NULL,
	`mac` text NOT NULL,
	`first_slot` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `flows_macs_mac_unique` ON `flows_macs` (`mac`);--> statement-breakpoint
CREATE TABLE `flows_readings` (
	`id` integer PRIMARY KEY NOT NULL,
	`at` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `flows_samples` (
	`id` integer PRIMARY KEY NOT NULL,
	`bytes_in` integer NOT NULL,
	`bytes_out` integer NOT NULL,
	`packets_in` integer NOT NULL,
	`packets_out` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `flows_series` (
	`id` integer PRIMARY KEY NOT NULL,
	`kilobytes` blob NOT NULL
);
