CREATE TABLE `core_events` (
	`id` integer PRIMARY KEY NOT NULL,
	`time` text NOT NULL,
	`type` text NOT NULL,
	`area` text NOT NULL,
	`resource` text NOT NULL,
	`actor` text NOT NULL,
	`request_id` text NOT NULL,
	`data` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `core_marks` (
	`name` text PRIMARY KEY NOT NULL,
	`value` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `core_operator_keys` (
	`id` text PRIMARY KEY NOT NULL,
	`label` text NOT NULL,
	`hash` text NOT NULL,
	`created_at` text NOT NULL
);
