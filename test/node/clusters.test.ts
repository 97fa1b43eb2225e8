import { clusterContract } from '../contracts/cluster.ts'
import { kvFeedContract } from '../contracts/kv-feed.ts'
import { openCluster } from './open-cluster.ts'

clusterContract('memoryClusters', openCluster)
kvFeedContract('memoryClusters', openCluster)
