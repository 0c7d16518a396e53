CREATE TABLE `ipam_allocations` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`pool_id` integer NOT NULL,
	`tenant_id` text NOT NULL,
	`ip` text NOT NULL,
	`hostname` text DEFAULT '' NOT NULL,
	`owner` text DEFAULT '' NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `ipam_allocations_address` ON `ipam_allocations` (`pool_id`,`ip`);--> statement-breakpoint
CREATE INDEX `ipam_allocations_tenant` ON `ipam_allocations` (`tenant_id`,`id`);--> statement-breakpoint
CREATE TABLE `ipam_free` (
	`pool` integer NOT NULL,
	`first` text NOT NULL,
	`last` text NOT NULL,
	PRIMARY KEY(`pool`, `first`)
);
--> statement-breakpoint
CREATE TABLE `ipam_pools` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`name` text NOT NULL,
	`subnet` text NOT NULL,
	`family` integer NOT NULL,
	`first` text NOT NULL,
	`last` text NOT NULL,
	`gateway` text DEFAULT '' NOT NULL,
	`range_start` text NOT NULL,
	`range_end` text NOT NULL,
	`tenant_id` text DEFAULT '' NOT NULL,
	`owner` text DEFAULT '' NOT NULL
);
--> statement-breakpoint
CREATE INDEX `ipam_pools_subnet` ON `ipam_pools` (`tenant_id`,`family`,`first`);--> statement-breakpoint
CREATE INDEX `ipam_pools_direct` ON `ipam_pools` (`id`) WHERE owner = '';