import { engineSettingsContract } from '../../contracts/engine-settings.ts'

engineSettingsContract('node')
