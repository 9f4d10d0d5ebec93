// Every page but the overview, by the first part of the address.

import { Audit } from './audit.js'
import { Channels, Connections, Consumers } from './clients.js'
import { Exchanges } from './exchanges.js'
import { Definitions, Limits, Policies, Users, Vhosts } from './admin.js'
import { Cluster, Features, Nodes } from './nodes.js'
import { RouteTester, Topology } from './insight.js'
import { Queues } from './queues.js'
import { Streams } from './streams.js'
import { Alarms, Delayed } from './trouble.js'

export const PAGES = {
  connections: Connections,
  channels: Channels,
  consumers: Consumers,
  exchanges: Exchanges,
  queues: Queues,
  streams: Streams,
  nodes: Nodes,
  alarms: Alarms,
  delayed: Delayed,
  audit: Audit,
  route: RouteTester,
  topology: Topology,
  users: Users,
  vhosts: Vhosts,
  policies: Policies,
  limits: Limits,
  definitions: Definitions,
  features: Features,
  cluster: Cluster
}
