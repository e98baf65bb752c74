// Names of the server's; a test compares them with the core's.

export const STATUSES = ["PENDING", "IN_FLIGHT", "PUBLISHED", "FAILED", "DEAD"];
export const CLASSES = ["unavailable", "rejected", "unroutable", "poison"];
