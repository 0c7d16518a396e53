CREATE TABLE `nat_pending` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`dest_ip` text NOT NULL,
	`dest_port` integer NOT NULL,
	`target_ip` text DEFAULT '' NOT NULL,
	`target_port` integer DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE TABLE `nat_rules` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`type` text NOT NULL,
	`family` integer NOT NULL,
	`dest_ip` text DEFAULT '' NOT NULL,
	`dest_port` integer DEFAULT 0 NOT NULL,
	`target_ip` text DEFAULT '' NOT NULL,
	`target_port` integer DEFAULT 0 NOT NULL,
	`interface` text DEFAULT '' NOT NULL,
	`first` text DEFAULT '' NOT NULL,
	`last` text DEFAULT '' NOT NULL,
	`cidr` text DEFAULT '' NOT NULL
);
--> statement-breakpoint
CREATE INDEX `nat_rules_type` ON `nat_rules` (`type`,`id`);--> statement-breakpoint
CREATE UNIQUE INDEX `nat_rules_dest` ON `nat_rules` (`dest_ip`,`dest_port`) WHERE type = 'port_forward';--> statement-breakpoint
CREATE UNIQUE INDEX `nat_rules_block` ON `nat_rules` (`interface`,`cidr`) WHERE type = 'snat';--> statement-breakpoint
CREATE INDEX `nat_rules_first` ON `nat_rules` (`interface`,`first`) WHERE type = 'snat';