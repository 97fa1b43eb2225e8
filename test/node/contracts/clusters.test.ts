import { circuitContract } from '../../contracts/circuits.ts'
import { clusterContract } from '../../contracts/cluster.ts'
import { kvFeedContract } from '../../contracts/kv-feed.ts'
import { queueContract } from '../../contracts/queue.ts'
import { openCluster } from './open-cluster.ts'

clusterContract('memoryClusters', openCluster)
circuitContract('memoryClusters', openCluster)
kvFeedContract('memoryClusters', openCluster)
queueContract('memoryClusters', openCluster)
