/** The dashboard's files, from the Worker's static assets. */
import type { AssetFiles } from '../../ports/assets.ts'

/** @param binding absent: deployed without assets */
export function boundAssets(binding: Fetcher | undefined): AssetFiles {
  return async (name) => {
    if (binding === undefined) return null
    // Any host works here.
    const response = await binding.fetch(`https://assets.invalid/${name}`)
    if (response.status === 200) return response.body
    await response.body?.cancel()
    return null
  }
}
