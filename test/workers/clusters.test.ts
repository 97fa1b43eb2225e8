import { clusterContract } from '../contracts/cluster.ts'
import { kvFeedContract } from '../contracts/kv-feed.ts'
import { openCluster } from './open-cluster.ts'

clusterContract('durableClusters', openCluster)
kvFeedContract('durableClusters', openCluster)
