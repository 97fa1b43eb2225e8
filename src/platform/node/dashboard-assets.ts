/** Files of the dashboard pages, from the disk. */
import { readFile } from 'node:fs/promises'
import type { AssetFiles } from '../../ports/assets.ts'

/** In an installed package, beside the bundle; in a checkout, where the build writes them. */
const DASHBOARD_FOLDER = new URL(
  import.meta.url.endsWith('.ts') ? '../../../dist/dashboard/' : '../dashboard/',
  import.meta.url,
)

const PLAIN_NAME = /^[\w-]+\.\w+$/

/** Reads a file for each request: there are few, and a new build takes effect at once. */
export function diskAssets(folder: URL = DASHBOARD_FOLDER): AssetFiles {
  return async (name) => {
    if (!PLAIN_NAME.test(name)) return null
    try {
      return await readFile(new URL(name, folder))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
      throw error
    }
  }
}
