// Written by codegen/api_pages.py from src/kafkaesque/admin/api: never edit.

/** A new access key; the secret cannot be asked for again. */
export interface AccessKeyView {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  access_key_id: string;
  secret: string;
}

/** A binding that begins at the exchange of the path. */
export interface BindingBody {
  to: "exchange" | "queue" | "topic";
  destination: string;
  key?: string;
  arguments?: string;
}

/** A binding; all of it is what it is known by. */
export interface BindingView {
  source: string;
  to: "exchange" | "queue" | "topic";
  destination: string;
  key: string;
  arguments: string;
}

/** A registered broker. */
export interface Broker {
  id: number;
  is_alive: boolean;
  lost_ms: number | null;
  rack: string | null;
  peer_address: string;
  endpoints: Endpoint[];
  is_controller: boolean;
  leads_controllers: boolean;
  state: BrokerState | null;
}

/** Registered brokers, up or not. */
export interface BrokerList {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  total: number;
  next: string | null;
  items: Broker[];
}

/** A broker's samples: times, and for each series the values at these times. */
export interface BrokerSeries {
  broker: number;
  step_ms: number;
  at: number[];
  values: Record<string, number[]>;
}

/** What a broker knows of itself. */
export interface BrokerState {
  version: string;
  is_ready: boolean;
  reasons: string[];
  has_failed: boolean;
  started_at: number | null;
  partitions_led: number;
  replicas: number;
  under_replicated: number;
  under_min_isr: number;
  damaged_replicas: number;
  recovering_replicas: number;
  log_bytes: number;
  disk_free_bytes: number | null;
  disk_total_bytes: number | null;
  refuses_appends: boolean;
  connections: number;
  groups: number;
  transactions_open: number;
  resident_bytes: number | null;
  cpu_seconds: number;
  open_files: number | null;
  open_files_max: number;
  metadata_offset: number;
  clock: number;
  rates: Rates;
}

/** One broker. */
export interface BrokerView {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  broker: Broker;
}

/** Names that certificates log in as, and the listeners of the broker that answers. */
export interface CertificateList {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  names: CertificateUser[];
  listeners: TlsListener[];
}

/** A name that a certificate may have, and the user that it proves. */
export interface CertificateUser {
  name: string;
  user: string;
  expires_at: number | null;
}

/** What was done, or would be. */
export interface Change {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  is_dry_run: boolean;
  what: string;
  command: string;
}

/** What the cluster holds for a client: its subscriptions, and what waits for it. */
export interface ClientSession {
  id: string;
  protocol: string;
  client_id: string;
  user: string;
  is_kept: boolean;
  vhost: string;
  broker: number | null;
  connection: number | null;
  peer: string | null;
  subscriptions: number;
  has_will: boolean | null;
  since: number | null;
  kept_for_ms: number | null;
  waiting: number | null;
  in_flight: number | null;
  oldest_at: number | null;
}

/** Sessions. */
export interface ClientSessionList {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  total: number;
  next: string | null;
  items: ClientSession[];
  unlisted: number;
}

/** One session. */
export interface ClientSessionView {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  session: ClientSession;
  subscriptions: SubscriptionView[];
  will: WillView | null;
  unwanted_ms: number | null;
  missing: string | null;
}

/** A whole cluster in few numbers; those of brokers that are missing are not in the sums. */
export interface ClusterView {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  cluster_id: string;
  version: string;
  controller: number | null;
  controllers: number[];
  brokers: number;
  brokers_alive: number;
  topics: number;
  partitions: number;
  leaderless: number;
  moving: number;
  recovering: number;
  under_replicated: number;
  under_min_isr: number;
  log_bytes: number;
  connections: number;
  groups: number;
  transactions_open: number;
  rates: Rates;
}

/** A client's connection. */
export interface Connected {
  broker: number;
  number: number;
  protocol: string;
  listener: string;
  peer: string;
  host: string;
  user: string;
  client_id: string;
  opened_at: number | null;
  bytes_in: number;
  bytes_out: number;
  rate_in: number | null;
  rate_out: number | null;
  unsent_bytes: number;
  idle_ms: number;
  is_throttled: boolean;
}

/** Clients' connections. */
export interface ConnectionList {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  total: number;
  next: string | null;
  items: Connected[];
}

/** A key, a value or a header. */
export interface Content {
  kind: string;
  text: string;
  bytes: number;
  is_cut: boolean;
  schema: UsedSchema | null;
  undecoded: string | null;
}

/** A broker's copy of the metadata log. */
export interface Controller {
  broker: number;
  is_voter: boolean;
  is_alive: boolean;
  leads: boolean;
  end_offset: number | null;
  has_all: boolean | null;
}

/** Who decides on metadata. */
export interface ControllersView {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  leader: number | null;
  term: number | null;
  high_watermark: number | null;
  missing: string | null;
  controllers: Controller[];
}

/** One time that a message was given up. */
export interface DeathNote {
  queue: string;
  vhost: string;
  reason: string;
  attempts: number;
  at: number;
}

/** What is wrong, as far as brokers know it themselves. */
export interface DoctorView {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  findings: Finding[];
}

/** It is done. */
export interface Done {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  what: string;
}

/** A listener as it is told to clients. */
export interface Endpoint {
  name: string;
  protocol: string;
  address: string;
}

/** Exchanges. */
export interface ExchangeList {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  total: number;
  next: string | null;
  items: ExchangeRow[];
}

/** An exchange in a list. */
export interface ExchangeRow {
  vhost: string;
  name: string;
  type: string;
  is_auto_delete: boolean;
  is_internal: boolean;
  is_built_in: boolean;
  alternate: string | null;
  arguments: string;
  bindings: number;
}

/** An exchange, and what leads from it and to it, as far as the client may see it. */
export interface ExchangeView {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  exchange: ExchangeRow;
  bindings_from: BindingView[];
  from_total: number;
  bindings_to: BindingView[];
  to_total: number;
}

/** Who may do something, and because of what; nobody else may. */
export interface Explanation {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  grants: ShownGrant[];
  queue: string;
  is_allowed: boolean | null;
  because: string;
  command: string;
}

/** One thing that is wrong; the names of checks are those of `kafkaesque doctor`. */
export interface Finding {
  check: string;
  severity: string;
  what: string;
  cause: string;
  command: string;
  names: string[];
}

/** A group in a list. */
export interface Group {
  group: string;
  state: string;
  kind: string;
  protocol_type: string;
  coordinator: number;
  topics: number;
  lag: number;
  unknown: number;
}

/** Groups. */
export interface GroupList {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  total: number;
  next: string | null;
  items: Group[];
}

/** What a group has committed in one partition. */
export interface GroupOffset {
  topic: string;
  partition: number;
  committed: number;
  metadata: string;
  committed_at: number | null;
  end_offset: number | null;
  lag: number | null;
  member: string | null;
}

/** One group. */
export interface GroupView {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  group: string;
  state: string;
  kind: string;
  protocol_type: string;
  protocol: string;
  coordinator: number;
  members: Member[];
  offsets: GroupOffset[];
  lag: number;
  unknown: number;
}

/** Which transaction of a partition is to be aborted. */
export interface HangingTransaction {
  start_offset: number;
}

/** A header; names may repeat. */
export interface Header {
  name: string;
  value: Content;
}

/** All versions of all keys, by topic and version, then by queue and version. */
export interface KeyList {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  keys: KeyView[];
}

/** A version of the key of an encrypted topic or queue, as it is wrapped. */
export interface KeyView {
  topic: string;
  queue: string;
  vhost: string;
  version: number;
  seals: boolean;
  keeper: string;
  keeper_key: string;
  is_here: boolean;
}

/** One thing on the way. */
export interface Link {
  name: string;
  state: string;
  what: string;
  evidence: string[];
  since: number | null;
  command: string | null;
}

/** Listeners. */
export interface ListenerList {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  total: number;
  next: string | null;
  items: ListenerState[];
}

/** A listener and what it has done since its broker's start. */
export interface ListenerState {
  broker: number;
  name: string;
  protocol: string;
  address: string | null;
  connections: number;
  accepted: number;
  refused: number;
  requests: number;
  bytes_in: number;
  bytes_out: number;
}

/** New samples; the `data` of an event of `/live`. */
export interface LiveEvent {
  at: number;
  brokers: BrokerSeries[];
  missing: Record<string, string>;
}

/** Who logs in, and what that is proved by. */
export interface LogIn {
  user: string;
  password: string;
  code?: string;
  cookie?: boolean;
}

/** A member of a group. */
export interface Member {
  member: string;
  instance: string | null;
  client_id: string;
  host: string;
  assignment: TopicPartitions[];
}

/** A record. */
export interface Message {
  partition: number;
  offset: number;
  timestamp: number | null;
  key: Content;
  value: Content;
  headers: Header[];
}

/** Messages, in the order of their offsets, or the newest first. */
export interface MessagePage {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  items: Message[];
  positions: Position[];
  passed_over: PassedOver[];
}

/** What a reset changes in one partition. */
export interface MovedOffset {
  partition: number;
  before: number | null;
  after: number;
  start_offset: number;
  end_offset: number;
}

/** A header or a property; what is no text is written in JSON. */
export interface NamedText {
  name: string;
  value: string;
}

/** An exchange to be declared. */
export interface NewExchange {
  name: string;
  vhost?: string;
  type?: string;
  is_auto_delete?: boolean;
  is_internal?: boolean;
  arguments?: string;
}

/** A header of a message. */
export interface NewHeader {
  name: string;
  value?: string | null;
}

/** A message to be published. */
export interface NewMessage {
  value: string | null;
  key?: string | null;
  headers?: NewHeader[];
  partition?: number | null;
  encoding?: "base64" | "text";
}

/** A queue to be created; what is not given is the default. */
export interface NewQueue {
  name: string;
  vhost?: string;
  replication_factor?: number | null;
  options?: Record<string, string>;
}

/** A role to be created, or described otherwise. */
export interface NewRole {
  name: string;
  description?: string;
}

/** Rules to be added: one for each operation. */
export interface NewRule {
  principal: string;
  operations: string[];
  resource_type: string;
  pattern?: "any" | "literal" | "prefix";
  name?: string;
  effect?: "allow" | "deny";
  host?: string;
}

/** A topic to be created; what is not given is the brokers' default. */
export interface NewTopic {
  name: string;
  partitions?: number | null;
  replication_factor?: number | null;
  options?: Record<string, string>;
}

/** A user to be created, or one that gets another password. */
export interface NewUser {
  name: string;
  password: string;
  replace?: boolean;
}

/** Where a group is to go on in a topic; what lies outside of a log becomes its nearer end. */
export interface OffsetReset {
  topic: string;
  partitions?: number[] | null;
  to: "earliest" | "latest" | "offset" | "shift" | "time";
  number?: number | null;
}

/** What a reset has changed, or would change. */
export interface OffsetsChange {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  is_dry_run: boolean;
  what: string;
  command: string;
  group: string;
  topic: string;
  members: number;
  rows: MovedOffset[];
}

/** A transaction that is open in a partition: readers of what is committed wait for it. */
export interface OpenTransaction {
  topic: string;
  partition: number;
  producer_id: number;
  producer_epoch: number;
  start_offset: number;
  written_at: number | null;
  transactional_id: string | null;
  is_hanging: boolean | null;
}

/** Transactions that are open in partitions. */
export interface OpenTransactionList {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  total: number;
  next: string | null;
  items: OpenTransaction[];
}

/** Options to be changed; null sets one back to its default. */
export interface OptionChanges {
  options: Record<string, string | null>;
}

/** A broker that had a part in an answer, or why its part is missing. */
export interface Origin {
  broker: number;
  as_of: number | null;
  missing: string | null;
}

/** A partition; from `start_offset` on its leader has said it. */
export interface Partition {
  partition: number;
  leader: number | null;
  epoch: number | null;
  replicas: number[];
  adding: number[];
  removing: number[];
  is_recovering: boolean;
  start_offset: number | null;
  end_offset: number | null;
  stable_offset: number | null;
  in_sync: number[] | null;
  bytes: number | null;
}

/** A range of offsets that could not be looked at, up to and without `next`. */
export interface PassedOver {
  partition: number;
  first: number;
  next: number;
  reason: string;
}

/** A query of Spark's, as far as the cluster knows it: what it writes, or what it reads. */
export interface Pipeline {
  id: string;
  kind: "sink" | "source";
  topics: string[];
  committed_at: number | null;
  tasks: number | null;
  batch: number | null;
  rows: number | null;
  bytes: number | null;
  lag: number | null;
  unknown: number;
}

/** Queries of Spark's. */
export interface PipelineList {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  total: number;
  next: string | null;
  items: Pipeline[];
}

/** One query. */
export interface PipelineView {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  pipeline: Pipeline;
  tasks: SinkTaskView[];
}

/** What becomes of one partition. */
export interface PlannedMove {
  partition: number;
  before: number[];
  after: number[];
  adding: number[];
  bytes: number | null;
  refusal: string | null;
}

/** What of a partition is on a page. */
export interface Position {
  partition: number;
  start_offset: number | null;
  end_offset: number | null;
  first: number | null;
  next: number | null;
  missing: string | null;
}

/** Why something was not done. */
export interface Problem {
  status: number;
  error: string;
  message: string;
}

/** Where a message is; in a dry run, where it would go, and no offset. */
export interface Published {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  is_dry_run: boolean;
  topic: string;
  partition: number;
  offset: number | null;
  command: string;
}

/** A queue in a list; numbers are null where no leader has said them. */
export interface Queue {
  vhost: string;
  name: string;
  id: string;
  created_at: number | null;
  partitions: number;
  replication_factor: number;
  leader: number | null;
  leaderless: number;
  source: string | null;
  dead_letters_to: string | null;
  ready: number | null;
  delayed: number | null;
  in_flight: number | null;
  parked: number | null;
  moving: number | null;
  consumers: number | null;
  oldest_at: number | null;
  bytes: number | null;
  unknown: number;
}

/** Queues. */
export interface QueueList {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  total: number;
  next: string | null;
  items: Queue[];
}

/** An option in force. */
export interface QueueOption {
  name: string;
  value: string;
  default: string;
  is_own: boolean;
  allowed: string;
  doc: string;
}

/** All options of a queue. */
export interface QueueOptions {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  vhost: string;
  queue: string;
  options: QueueOption[];
}

/** A partition of a queue; where `missing` says why, its leader has not answered. */
export interface QueuePart {
  partition: number;
  leader: number | null;
  replicas: number[];
  missing: string | null;
  ready: number;
  delayed: number;
  in_flight: number;
  parked: number;
  moving: number;
  consumers: number;
  oldest_at: number | null;
  newest_at: number | null;
  unwanted_ms: number;
  in_flight_max: number;
  head: number | null;
  head_place: string;
  head_failures: number;
  held_by: string;
  log_start: number;
  log_end: number;
  log_bytes: number;
  arrived: number;
  removed: Record<string, number>;
  redriving_to: string | null;
}

/** One queue. */
export interface QueueView {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  queue: Queue;
  parts: QueuePart[];
}

/** A message that is looked at and not taken. */
export interface QueuedMessage {
  partition: number;
  offset: number;
  place: string;
  attempts: number;
  failures: number;
  timestamp: number;
  not_before: number | null;
  not_after: number | null;
  key: Content;
  value: Content;
  headers: Header[];
  deaths: DeathNote[];
}

/** Messages of one partition of a queue, oldest first. */
export interface QueuedMessages {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  items: QueuedMessage[];
  next: number | null;
}

/** Of the last seconds, per second. */
export interface Rates {
  messages_in: number;
  bytes_in: number;
  bytes_out: number;
  requests: number;
}

/** Where replicas are to be. */
export interface Reassignment {
  replicas: number[] | null;
  partitions?: number[] | null;
}

/** What is moved, or would be. */
export interface ReassignmentChange {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  is_dry_run: boolean;
  what: string;
  command: string;
  topic: string;
  rows: PlannedMove[];
  bytes: number;
  unknown: number;
  duration_ms: number;
  rate: number;
  rate_is: "assumed" | "limit";
}

/** Where messages are to go that wait or were given up. */
export interface Redrive {
  to?: string | null;
  stop?: boolean;
}

/** A name, and its last retained message. */
export interface RetainedName {
  name: string;
  qos: number;
  value: Content;
  content_type: string | null;
  expires_at: number | null;
}

/** Some of the names that a filter matches, sorted as texts. */
export interface RetainedView {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  filter: string;
  items: RetainedName[];
  next: string | null;
}

/** Roles. */
export interface RoleList {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  total: number;
  next: string | null;
  items: ShownRole[];
}

/** A message that is not published: where would it go? */
export interface RouteQuestion {
  key?: string;
  headers?: Record<string, string>;
  body?: string;
}

/** Where a message would go; nowhere, if all lists are empty: nobody would have it. */
export interface RouteView {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  queues: string[];
  topics: string[];
  delayed_queues: string[];
  delay_ms: number;
}

/** A rule in JSON: its steps, and `when` and `failures` if it has them. */
export interface RuleBody {
  rule: string;
}

/** What was done, or would be, and what there is now that the rules are for. */
export interface RuleChange {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  is_dry_run: boolean;
  what: string;
  command: string;
  matches: string[] | null;
  match_total: number;
}

/** Rules. */
export interface RuleList {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  total: number;
  next: string | null;
  items: RuleRow[];
}

/** A rule. */
export interface RuleRow {
  id: number;
  effect: string;
  principal: string;
  operation: string;
  resource_type: string;
  pattern: "any" | "literal" | "prefix";
  name: string;
  host: string;
}

/** A version that a schema refers to. */
export interface SchemaReference {
  name: string;
  subject: string;
  version: number;
}

/** A version of a subject. */
export interface SchemaVersion {
  version: number;
  id: number;
  type: string;
  schema: string;
  references: SchemaReference[];
  referenced_by: number;
}

/** Which messages are searched for; all that is given has to hold. */
export interface SearchFilter {
  contains?: string;
  key?: string | null;
  json_path?: string;
  json_value?: string | null;
  decoded?: boolean;
  since?: number | null;
  before?: number | null;
}

/** A line of the answer: a match, or how far it is, or the end. */
export interface SearchLine {
  kind: string;
  message?: Message | null;
  records?: number | null;
  total?: number | null;
  bytes?: number | null;
  matches?: number | null;
  reason?: string | null;
  positions?: Record<string, number> | null;
  missing?: Record<string, string> | null;
  passed_over?: PassedOver[] | null;
}

/** What to search, and for how long. */
export interface SearchRequest {
  topic: string;
  partitions?: number[] | null;
  filter?: SearchFilter;
  positions?: Record<string, number>;
  limit?: number;
  seconds?: number;
  key_format?: "auto" | "avro" | "hex" | "json" | "msgpack" | "protobuf" | "text";
  value_format?: "auto" | "avro" | "hex" | "json" | "msgpack" | "protobuf" | "text";
}

/** What is to be shown once, and kept by its person alone. */
export interface SecondFactor {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  user: string;
  uri: string;
  recovery_codes: string[];
}

/** What a series is. */
export interface SeriesInfo {
  name: string;
  is_counter: boolean;
  unit: string;
  doc: string;
}

/** Samples of all brokers; counters are as they are, so that rates can be derived. */
export interface SeriesView {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  series: SeriesInfo[];
  brokers: BrokerSeries[];
}

/** Who has logged in. */
export interface SessionView {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  user: string | null;
  expires_at: number | null;
  token: string | null;
}

/** A credential, without what it checks. */
export interface ShownCredential {
  kind: string;
  mechanism: string;
  expires_ms: number;
  networks: string[];
  is_disabled: boolean;
  access_key_id: string;
  public_key: string;
}

/** That somebody may do it, and because of what. */
export interface ShownGrant {
  principal: string;
  rule: string;
  but_for: string[];
  also: string;
}

/** A role. */
export interface ShownRole {
  name: string;
  description: string;
  users: string[];
  rules: number;
}

/** What one task of a sink has written last. */
export interface SinkTaskView {
  task: number;
  group: string;
  topics: string[];
  batch: number;
  rows: number;
  bytes: number;
  committed_at: number | null;
}

/** A stream; it is the topic of its name. */
export interface Stream {
  name: string;
  description: string;
  subjects: string[];
  origins: string[];
  is_mirror: boolean;
  retention: string;
  discard: string;
  messages_max: number | null;
  bytes_max: number | null;
  age_max_ms: number | null;
  consumers: number;
  created_at: number | null;
  leader: number | null;
  messages: number | null;
  bytes: number | null;
  last_sequence: number | null;
}

/** A consumer of a stream that the cluster keeps; it is a queue. */
export interface StreamConsumer {
  name: string;
  stream: string;
  queue: string;
  description: string;
  is_durable: boolean;
  deliver_policy: string;
  ack_policy: string;
  filters: string[];
  deliver_subject: string | null;
  paused_until: string | null;
  deliveries_max: number | null;
  unacknowledged_max: number | null;
  created_at: number | null;
  ready: number | null;
  unacknowledged: number | null;
  parked: number | null;
  receivers: number | null;
}

/** Consumers of a stream. */
export interface StreamConsumerList {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  total: number;
  next: string | null;
  items: StreamConsumer[];
}

/** Streams. */
export interface StreamList {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  total: number;
  next: string | null;
  items: Stream[];
}

/** Subjects that the client may see. */
export interface SubjectList {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  total: number;
  next: string | null;
  items: SubjectRow[];
  is_current: boolean;
}

/** A subject in a list. */
export interface SubjectRow {
  name: string;
  type: string;
  version: number;
  id: number;
  versions: number;
  compatibility: string;
}

/** A subject, with its versions, the newest first; at most 100 of `version_total`, and 4 MiB. */
export interface SubjectView {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  name: string;
  compatibility: string;
  mode: string;
  versions: SchemaVersion[];
  version_total: number;
  is_current: boolean;
}

/** One subscription. */
export interface SubscriptionView {
  name: string;
  qos: number | null;
  group: string;
  queue: string | null;
  exchange: string | null;
}

/** A listener of the broker that answers. */
export interface TlsListener {
  protocol: string;
  name: string;
  advertised: string;
  has_tls: boolean;
  access: string;
  log_in_by: string;
}

/** A topic in a list. */
export interface Topic {
  name: string;
  id: string;
  is_internal: boolean;
  created_at: number | null;
  partitions: number;
  replication_factor: number;
  leaderless: number;
  messages: number | null;
  bytes: number | null;
  under_replicated: number | null;
  offsets: number | null;
  unknown: number;
}

/** A group that has committed offsets in a topic. */
export interface TopicGroup {
  group: string;
  state: string;
  partitions: number;
  lag: number;
  unknown: number;
  coordinator: number;
}

/** Groups that consume a topic. */
export interface TopicGroups {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  total: number;
  next: string | null;
  items: TopicGroup[];
}

/** Topics. */
export interface TopicList {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  total: number;
  next: string | null;
  items: Topic[];
}

/** An option of a topic that is in force. */
export interface TopicOption {
  name: string;
  value: string;
  default: string;
  is_own: boolean;
  allowed: string;
  doc: string;
}

/** All options of a topic. */
export interface TopicOptions {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  topic: string;
  options: TopicOption[];
}

/** Partitions of one topic. */
export interface TopicPartitions {
  topic: string;
  partitions: number[];
}

/** One topic. */
export interface TopicView {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  topic: Topic;
  min_in_sync: number;
  partitions: Partition[];
  next: string | null;
}

/** A trace in a list, as far as brokers have a part in it. */
export interface Trace {
  trace: string;
  begin_at: number;
  duration_us: number;
  spans: number;
  topics: string[];
  brokers: number[];
}

/** Traces of which brokers still have spans. */
export interface TraceList {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  total: number;
  next: string | null;
  items: Trace[];
  off: number[];
}

/** Something that took its time. */
export interface TraceSpan {
  span: string;
  parent: string;
  operation: string;
  broker: number;
  begin_us: number;
  duration_us: number;
  topic: string;
  partition: number;
  offset: number;
  client_id: string;
}

/** One trace. */
export interface TraceView {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  trace: string;
  begin_at: number;
  duration_us: number;
  spans: TraceSpan[];
}

/** A transactional id. */
export interface Transaction {
  transactional_id: string;
  state: string;
  producer_id: number;
  producer_epoch: number;
  timeout_ms: number;
  since: number | null;
  coordinator: number;
  partitions: TopicPartitions[];
}

/** Transactional ids. */
export interface TransactionList {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  total: number;
  next: string | null;
  items: Transaction[];
}

/** Transformations. */
export interface TransformationList {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  total: number;
  next: string | null;
  items: TransformationRow[];
}

/** A transformation. */
export interface TransformationRow {
  vhost: string;
  name: string;
  rule: string;
  bindings: number;
}

/** One transformation. */
export interface TransformationView {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  transformation: TransformationRow;
}

/** A rule and a message: one that is given here, or one that waits in a queue. */
export interface Trial {
  rule?: string;
  headers?: Record<string, string>;
  properties?: Record<string, string>;
  body?: string;
  queue?: string | null;
  partition?: number;
  offset?: number;
}

/** What a rule makes of a message. */
export interface TrialView {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  applies: boolean;
  before: TriedMessage;
  after: TriedMessage | null;
  failure: string | null;
  failures: string;
  offset: number | null;
}

/** A message as rules see it. */
export interface TriedMessage {
  headers: NamedText[];
  properties: NamedText[];
  body: Content;
}

/** The schema that a key or a value was written with. */
export interface UsedSchema {
  id: number;
  type: string;
  subject: string;
  version: number;
}

/** What is to change of a user; null stays. */
export interface UserChanges {
  is_disabled?: boolean | null;
  add_roles?: string[];
  remove_roles?: string[];
  expires_at?: number | null;
  networks?: string[] | null;
}

/** Users. */
export interface UserList {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  total: number;
  next: string | null;
  items: UserRow[];
  super_users: string[];
}

/** A user. */
export interface UserRow {
  name: string;
  kind: string;
  roles: string[];
  is_disabled: boolean;
  is_super: boolean;
  credentials: ShownCredential[];
  sessions: number;
}

/** Virtual hosts. */
export interface VhostList {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  total: number;
  next: string | null;
  items: VhostRow[];
}

/** A virtual host. */
export interface VhostRow {
  name: string;
  exchanges: number;
  queues: number;
}

/** The chain, in the order of the way. */
export interface WhyView {
  as_of: number;
  seen_by: number;
  sources: Origin[];
  about: string;
  cause: string | null;
  is_certain: boolean;
  links: Link[];
}

/** What is published when the client is gone without a farewell. */
export interface WillView {
  name: string | null;
  qos: number;
  is_retained: boolean;
  delay_ms: number;
  value: Content | null;
}
