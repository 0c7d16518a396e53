CREATE TABLE `bgp_announcements` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`prefix` text NOT NULL,
	`family` integer NOT NULL,
	`next_hop` text NOT NULL,
	`tag` integer NOT NULL,
	`communities` text NOT NULL,
	`attributes` text NOT NULL,
	`created_at` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `bgp_announcements_prefix_unique` ON `bgp_announcements` (`prefix`);--> statement-breakpoint
CREATE INDEX `bgp_announcements_attributes` ON `bgp_announcements` (`attributes`);--> statement-breakpoint
CREATE INDEX `bgp_announcements_tag` ON `bgp_announcements` (`tag`);--> statement-breakpoint
CREATE TABLE `bgp_neighbors` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`addr` text NOT NULL,
	`peer_as` integer NOT NULL,
	`local_as` integer NOT NULL,
	`speaker_as` integer NOT NULL,
	`view` integer NOT NULL,
	`hold_time` integer NOT NULL,
	`keepalive` integer NOT NULL,
	`md5_key` text NOT NULL,
	`bfd` integer NOT NULL,
	`bfd_interval` integer NOT NULL,
	`bfd_multiplier` integer NOT NULL,
	`import_map` integer DEFAULT 0 NOT NULL,
	`export_map` integer DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `bgp_neighbors_addr_unique` ON `bgp_neighbors` (`addr`);--> statement-breakpoint
CREATE TABLE `bgp_next_hops` (
	`tag` integer PRIMARY KEY NOT NULL,
	`family` integer NOT NULL,
	`address` text NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `bgp_next_hops_address_unique` ON `bgp_next_hops` (`address`);--> statement-breakpoint
CREATE TABLE `bgp_prefix_lists` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`name` text NOT NULL,
	`entries` text NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `bgp_prefix_lists_name_unique` ON `bgp_prefix_lists` (`name`);--> statement-breakpoint
CREATE TABLE `bgp_route_maps` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`name` text NOT NULL,
	`entries` text NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `bgp_route_maps_name_unique` ON `bgp_route_maps` (`name`);--> statement-breakpoint
CREATE TABLE `bgp_sessions` (
	`neighbor_id` integer PRIMARY KEY NOT NULL,
	`state` text NOT NULL,
	`bfd` text NOT NULL,
	`changed_at` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `bgp_speaker` (
	`id` integer PRIMARY KEY NOT NULL,
	`as` integer NOT NULL,
	`router_id` text NOT NULL
);
