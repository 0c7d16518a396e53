CREATE TABLE `networks_claims` (
	`ip` integer PRIMARY KEY NOT NULL,
	`range` text NOT NULL,
	`machine` text NOT NULL,
	`net` integer DEFAULT 0 NOT NULL,
	`address` integer DEFAULT 0 NOT NULL,
	`mac` text DEFAULT '' NOT NULL,
	`own` integer DEFAULT 0 NOT NULL,
	`port` text DEFAULT '' NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `networks_claims_endpoint` ON `networks_claims` (`net`,`address`) WHERE net > 0;--> statement-breakpoint
CREATE UNIQUE INDEX `networks_claims_own` ON `networks_claims` (`own`) WHERE own > 0;--> statement-breakpoint
CREATE INDEX `networks_claims_machine` ON `networks_claims` (`machine`,`ip`);--> statement-breakpoint
CREATE INDEX `networks_claims_mac` ON `networks_claims` (`mac`) WHERE mac <> '';--> statement-breakpoint
CREATE INDEX `networks_claims_port` ON `networks_claims` (`port`) WHERE port <> '';--> statement-breakpoint
CREATE TABLE `networks_counters` (
	`name` text PRIMARY KEY NOT NULL,
	`value` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `networks_endpoints` (
	`net` integer NOT NULL,
	`address` integer NOT NULL,
	`mac` text NOT NULL,
	`free_mac` text DEFAULT '' NOT NULL,
	`bound_at` text DEFAULT '' NOT NULL,
	`machine` text DEFAULT '' NOT NULL,
	`port` text DEFAULT '' NOT NULL,
	PRIMARY KEY(`net`, `address`)
);
--> statement-breakpoint
CREATE UNIQUE INDEX `networks_endpoints_mac` ON `networks_endpoints` (`net`,`mac`);--> statement-breakpoint
CREATE UNIQUE INDEX `networks_endpoints_free_mac` ON `networks_endpoints` (`net`,`free_mac`) WHERE free_mac <> '';--> statement-breakpoint
CREATE INDEX `networks_endpoints_machine` ON `networks_endpoints` (`machine`,`net`,`address`) WHERE machine <> '';--> statement-breakpoint
CREATE INDEX `networks_endpoints_port` ON `networks_endpoints` (`port`) WHERE port <> '';--> statement-breakpoint
CREATE TABLE `networks_networks` (
	`id` text PRIMARY KEY NOT NULL,
	`net` integer NOT NULL,
	`name` text NOT NULL,
	`first` integer NOT NULL,
	`last` integer NOT NULL,
	`gateway` integer DEFAULT 0 NOT NULL,
	`vlan` integer DEFAULT 0 NOT NULL,
	`tenant_id` text DEFAULT '' NOT NULL,
	`created_at` text NOT NULL,
	`host_gateway` integer DEFAULT false NOT NULL,
	`snat` integer DEFAULT false NOT NULL,
	`dhcp` integer DEFAULT false NOT NULL,
	`pool` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `networks_networks_net_unique` ON `networks_networks` (`net`);--> statement-breakpoint
CREATE UNIQUE INDEX `networks_networks_name_unique` ON `networks_networks` (`name`);--> statement-breakpoint
CREATE INDEX `networks_networks_block` ON `networks_networks` (`first`);--> statement-breakpoint
CREATE INDEX `networks_networks_tenant` ON `networks_networks` (`tenant_id`);--> statement-breakpoint
CREATE UNIQUE INDEX `networks_networks_vlan` ON `networks_networks` (`vlan`) WHERE vlan > 0;--> statement-breakpoint
CREATE TABLE `networks_ranges` (
	`id` text PRIMARY KEY NOT NULL,
	`first` integer NOT NULL,
	`last` integer NOT NULL,
	`tenant_id` text DEFAULT '' NOT NULL,
	`description` text DEFAULT '' NOT NULL,
	`used` integer DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `networks_ranges_block` ON `networks_ranges` (`last`);--> statement-breakpoint
CREATE INDEX `networks_ranges_tenant` ON `networks_ranges` (`tenant_id`,`last`);