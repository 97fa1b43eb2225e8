/** Name of this deployment in the header `via` (RFC 9110, section 7.6.3). */
import type { ClusterConfig } from '../config.ts'
import { hashText } from '../core/routing/placement-hash.ts'

export const VIA_VERSION = '1.1 '

/** Fields that the name is derived from. An allow-list, so that a secret added later stays out. */
const NAMED_FIELDS = ['id', 'region', 'pools', 'model', 'engines', 'url', 'binding']

/**
 * Name of a deployment: equal for all replicas and isolates with the same document, different for other engines (an
 * edge before regional gateways). It uses the clusters as written, because discovered addresses change and differ
 * between replicas for a moment. A loop through several names ends at the first that occurs twice.
 */
export const viaName = (clusters: readonly ClusterConfig[]): string =>
  `${VIA_VERSION}firstlight-${hashText(JSON.stringify(clusters, NAMED_FIELDS)).toString(16).padStart(8, '0')}`
