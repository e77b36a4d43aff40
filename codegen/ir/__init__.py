"""The intermediate languages: schedule trees and tile programs, with visitors, a printer and a parser."""
