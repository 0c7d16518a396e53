CREATE TABLE `compute_machines` (
	`name` text PRIMARY KEY NOT NULL,
	`created_at` text NOT NULL
);
