ALTER TABLE `dhcp_leases` ADD `held` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
CREATE INDEX `dhcp_leases_held` ON `dhcp_leases` (`expires_at`) WHERE held > 0;