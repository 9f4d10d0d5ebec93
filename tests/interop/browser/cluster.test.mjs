// The stories of $OPERATORS that need a cluster, told on the pages of its three nodes, which are at
// $CLUSTER_HTTP. $CLUSTER_CONTROLS stop and start them.

import { CLUSTER_STORIES } from './stories.mjs'
import { tell } from './telling.mjs'

tell(CLUSTER_STORIES, process.env.CLUSTER_HTTP.split(',')[0])
