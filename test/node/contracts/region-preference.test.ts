import { regionPreferenceContract } from '../../contracts/region-preference.ts'

regionPreferenceContract('node')
