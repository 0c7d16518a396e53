CREATE TABLE `dhcp_leases` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`net` integer NOT NULL,
	`network_id` text NOT NULL,
	`address` integer NOT NULL,
	`mac` text NOT NULL,
	`hostname` text DEFAULT '' NOT NULL,
	`state` text NOT NULL,
	`expires_at` integer NOT NULL,
	`ended_at` integer DEFAULT 0 NOT NULL,
	`released_at` integer DEFAULT 0 NOT NULL,
	`heard_at` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `dhcp_leases_holder` ON `dhcp_leases` (`net`,`address`,`mac`);--> statement-breakpoint
CREATE INDEX `dhcp_leases_due` ON `dhcp_leases` (`state`,`expires_at`);--> statement-breakpoint
CREATE INDEX `dhcp_leases_ended` ON `dhcp_leases` (`ended_at`) WHERE ended_at > 0;--> statement-breakpoint
CREATE INDEX `dhcp_leases_address` ON `dhcp_leases` (`address`);--> statement-breakpoint
CREATE INDEX `dhcp_leases_mac` ON `dhcp_leases` (`mac`);--> statement-breakpoint
CREATE TABLE `dhcp_reservations` (
	`net` integer NOT NULL,
	`address` integer NOT NULL,
	`mac` text NOT NULL,
	`created_at` text NOT NULL,
	PRIMARY KEY(`net`, `address`)
);
