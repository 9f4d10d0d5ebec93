// Every page but the overview, by the first part of the address.

import { Channels, Connections, Consumers } from './clients.js'
import { Exchanges } from './exchanges.js'
import { Queues } from './queues.js'

export const PAGES = {
  connections: Connections,
  channels: Channels,
  consumers: Consumers,
  exchanges: Exchanges,
  queues: Queues
}
