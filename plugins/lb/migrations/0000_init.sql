CREATE TABLE `lb_backends` (
	`number` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`vip` text NOT NULL,
	`id` text NOT NULL,
	`handle` text NOT NULL,
	`ip` text NOT NULL,
	`port` integer NOT NULL,
	`weight` integer NOT NULL,
	`state` text NOT NULL,
	`settling` text NOT NULL,
	`revision` integer DEFAULT 0 NOT NULL,
	`drain_until` integer DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `lb_backends_handle` ON `lb_backends` (`vip`,`handle`);--> statement-breakpoint
CREATE UNIQUE INDEX `lb_backends_target` ON `lb_backends` (`vip`,`ip`,`port`);--> statement-breakpoint
CREATE UNIQUE INDEX `lb_backends_id` ON `lb_backends` (`vip`,`id`) WHERE state <> 'draining';--> statement-breakpoint
CREATE INDEX `lb_backends_ip` ON `lb_backends` (`ip`);--> statement-breakpoint
CREATE INDEX `lb_backends_state` ON `lb_backends` (`state`,`drain_until`);--> statement-breakpoint
CREATE TABLE `lb_place` (
	`id` integer PRIMARY KEY NOT NULL,
	`interface` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `lb_vips` (
	`number` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`id` text NOT NULL,
	`address` text NOT NULL,
	`port` integer NOT NULL,
	`protocol` text NOT NULL,
	`algorithm` text NOT NULL,
	`dsr` integer NOT NULL,
	`holder` text NOT NULL,
	`check_type` text NOT NULL,
	`check_interval` integer NOT NULL,
	`check_timeout` integer NOT NULL,
	`check_threshold` integer NOT NULL,
	`check_path` text NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `lb_vips_id_unique` ON `lb_vips` (`id`);--> statement-breakpoint
CREATE UNIQUE INDEX `lb_vips_frontend` ON `lb_vips` (`address`,`port`,`protocol`);--> statement-breakpoint
CREATE INDEX `lb_vips_held` ON `lb_vips` (`address`) WHERE holder = 'lb';