DROP INDEX `networks_networks_tenant`;--> statement-breakpoint
CREATE INDEX `networks_networks_tenant` ON `networks_networks` (`tenant_id`,`name`);--> statement-breakpoint
CREATE INDEX `networks_endpoints_bound` ON `networks_endpoints` (`net`,`address`) WHERE bound_at <> '';