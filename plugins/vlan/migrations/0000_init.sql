CREATE TABLE `vlan_policies` (
	`vlan_id` integer PRIMARY KEY NOT NULL,
	`allowed` integer NOT NULL
);
