CREATE TABLE `cluster_members` (
	`node` text PRIMARY KEY NOT NULL,
	`address` text NOT NULL,
	`voter` integer NOT NULL,
	`last_seen` text
);
--> statement-breakpoint
CREATE TABLE `cluster_own` (
	`revision` integer PRIMARY KEY NOT NULL
);
--> statement-breakpoint
CREATE TABLE `cluster_rows` (
	`key` text PRIMARY KEY NOT NULL,
	`revision` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `cluster_self` (
	`id` integer PRIMARY KEY NOT NULL,
	`mode` text NOT NULL,
	`node` text NOT NULL,
	`cluster` text NOT NULL,
	`address` text NOT NULL,
	`peer_port` integer NOT NULL,
	`initial_cluster` text NOT NULL,
	`revision` integer DEFAULT 0 NOT NULL
);
