// What rules are about, as the API spells it; see docs/security.md.

/** What can be done to each type of resources. */
export const OPERATIONS: Record<string, string[]> = {
  topic: ['read', 'write', 'create', 'delete', 'alter', 'describe', 'describe-configs', 'alter-configs'],
  group: ['read', 'delete', 'describe', 'describe-configs', 'alter-configs'],
  queue: ['read', 'write', 'create', 'delete', 'alter', 'describe'],
  exchange: ['read', 'write', 'create', 'delete', 'alter', 'describe'],
  vhost: ['create', 'delete', 'describe'],
  subject: ['read', 'write', 'delete', 'describe', 'alter-configs'],
  'transactional-id': ['describe', 'write'],
  cluster: ['create', 'describe', 'alter', 'describe-configs', 'alter-configs', 'idempotent-write', 'cluster-action'],
};
