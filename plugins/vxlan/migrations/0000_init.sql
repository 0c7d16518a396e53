CREATE TABLE `vxlan_local` (
	`id` integer PRIMARY KEY NOT NULL,
	`address` text NOT NULL,
	`mtu` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `vxlan_networks` (
	`vni` integer PRIMARY KEY NOT NULL,
	`subnet` text NOT NULL,
	`network` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `vxlan_networks_subnet` ON `vxlan_networks` (`subnet`);--> statement-breakpoint
CREATE INDEX `vxlan_networks_network` ON `vxlan_networks` (`network`);--> statement-breakpoint
CREATE TABLE `vxlan_peers` (
	`vni` integer NOT NULL,
	`host` text NOT NULL,
	`mac` text NOT NULL,
	`vtep` text NOT NULL,
	PRIMARY KEY(`vni`, `host`)
);
--> statement-breakpoint
CREATE UNIQUE INDEX `vxlan_peers_mac` ON `vxlan_peers` (`vni`,`mac`) WHERE mac <> '';--> statement-breakpoint
CREATE INDEX `vxlan_peers_vtep` ON `vxlan_peers` (`vtep`,`vni`);