ALTER TABLE `networks_claims` ADD `kept_port` text DEFAULT '' NOT NULL;--> statement-breakpoint
CREATE INDEX `networks_claims_kept` ON `networks_claims` (`kept_port`) WHERE kept_port <> '';--> statement-breakpoint
ALTER TABLE `networks_endpoints` ADD `kept_port` text DEFAULT '' NOT NULL;--> statement-breakpoint
CREATE INDEX `networks_endpoints_kept` ON `networks_endpoints` (`kept_port`) WHERE kept_port <> '';--> statement-breakpoint
CREATE INDEX `networks_endpoints_unnamed` ON `networks_endpoints` (`net`) WHERE bound_at <> '' and port = '';