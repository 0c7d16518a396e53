CREATE TABLE `macbind_bindings` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`mac` text NOT NULL,
	`port_id` text NOT NULL,
	`vlan_id` integer NOT NULL,
	`mode` text NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `macbind_bindings_mac_unique` ON `macbind_bindings` (`mac`);