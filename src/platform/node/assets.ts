/** The files of the pages at `/` and `/dashboard`, from the disk. */
import { readFile } from 'node:fs/promises'
import type { AssetFiles } from '../../ports.ts'

/** Beside the bundle in an installed package; in a checkout where the build puts them. */
const FOLDER = new URL(import.meta.url.endsWith('.ts') ? '../../../dist/dashboard/' : './dashboard/', import.meta.url)

const PLAIN_NAME = /^[\w-]+\.\w+$/

/** Read anew each time: they are few, and a build while the gateway runs is seen. */
export function diskAssets(folder: URL = FOLDER): AssetFiles {
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
