CREATE TABLE `firewall_pending` (
	`rule` integer PRIMARY KEY NOT NULL
);
--> statement-breakpoint
CREATE TABLE `firewall_rules` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`action` text NOT NULL,
	`priority` integer DEFAULT 0 NOT NULL,
	`protocol` text DEFAULT '' NOT NULL,
	`source_ip` text DEFAULT '' NOT NULL,
	`dest_ip` text DEFAULT '' NOT NULL,
	`source_port` integer DEFAULT 0 NOT NULL,
	`dest_port` integer DEFAULT 0 NOT NULL,
	`dest_port_max` integer DEFAULT 0 NOT NULL,
	`interface` text DEFAULT '' NOT NULL,
	`mac` text DEFAULT '' NOT NULL,
	`level` text DEFAULT 'global' NOT NULL,
	`comment` text DEFAULT '' NOT NULL,
	`chain` text DEFAULT 'prerouting' NOT NULL,
	`stateful` integer DEFAULT true NOT NULL,
	`tie` integer NOT NULL,
	`schedule_from` text DEFAULT '' NOT NULL,
	`schedule_to` text DEFAULT '' NOT NULL,
	`schedule_daily` integer DEFAULT false NOT NULL
);
--> statement-breakpoint
CREATE INDEX `firewall_rules_schedule` ON `firewall_rules` (`schedule_from`);--> statement-breakpoint
CREATE TABLE `firewall_settings` (
	`name` text PRIMARY KEY NOT NULL,
	`value` text NOT NULL
);
